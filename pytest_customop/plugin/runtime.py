"""pytest's hooks in a session that uses the plugin, by an option, a mark or a fixture of it.

No other session loads them: `session_of` brings them when it is first called.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from ..declare.marked import CELL
from .session.state import ATTRIBUTE, PLANNED, RESULTS, SESSION, Session

if TYPE_CHECKING:
    from ..plan.items import PlannedItem


def session_of(config: pytest.Config) -> Session:
    """What is remembered of a session, from the first time on that something asks."""
    known = config.stash.get(SESSION, None)
    if known is None:
        known = config.stash[SESSION] = Session(config)
        config.pluginmanager.register(sys.modules[__name__], "customop-in-use")
        config.pluginmanager.register(_Reports(known), "customop-reports")
    return known


def apply_options(config: pytest.Config) -> None:
    """Validate what was given, and start what it takes.

    Raises:
        pytest.UsageError: for what is not allowed, or cannot be here.
    """
    session = session_of(config)
    session.validate_command_line()
    if session.settings.timeout:
        from .child.pytest_timeout import validate_timer

        validate_timer(config, session)
    if session.settings.isolate:
        from .child import isolate

        isolate(config, session)
    if config.getoption("customop_checks") and not _is_worker(config):
        from .info_options import validate_check_names

        validate_check_names(session)


class _Reports:
    """Hands every report to the session: pytest's hook for it has no config."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._session.record_report(report)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_itemcollected(item: pytest.Item) -> None:
    callspec = getattr(item, "callspec", None)
    planned: Any = callspec.params.get(CELL) if callspec is not None else None
    if planned is None:
        return
    item.stash[PLANNED] = planned
    if item.config.stash[SESSION].settings.timeout:
        from .child.pytest_timeout import limit

        limit(item, item.config.stash[SESSION])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _deselect_empty(config, items)
    wrong = config.stash[SESSION].wrong_checks()
    if not wrong:
        others = config.stash[SESSION].keep_shard(items)
        if others:
            config.hook.pytest_deselected(items=others)
        return
    if not _is_worker(config):
        raise pytest.UsageError(f"customop: {wrong[0]}")
    # A usage error inside a worker would read as an internal one: the controller tells it.
    items.clear()


def _deselect_empty(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the items that stand for nothing: a body, or checks, that are not selected."""
    empty = [
        item
        for item in items
        if item.stash.get(PLANNED, None) is None and CELL in getattr(item, "fixturenames", ())
    ]
    if empty:
        items[:] = [item for item in items if item not in empty]
        config.hook.pytest_deselected(items=empty)


# Running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    planned = pyfuncitem.stash.get(PLANNED, None)
    if planned is None:
        return None
    on_phase = pyfuncitem.config.stash[SESSION].on_phase
    if planned.is_body:
        on_phase("body")
        return None
    if planned.check is None or planned.case is None:
        pytest.fail(f"{planned.skip} (--customop-require-devices)", pytrace=False)
    from .child.pytest_timeout import run_in_time
    from .session.rerun import failure_text
    from .session.xdist import share_of_threads

    with share_of_threads(pyfuncitem.config):
        result = run_in_time(planned, on_phase, pyfuncitem.config.stash[SESSION].hung)
    pyfuncitem.stash[RESULTS] = [result]
    if result.outcome == "skipped":
        pytest.skip(f"{result.skip_code}: {result.message}")
    if result.outcome != "passed":
        pytest.fail(failure_text(pyfuncitem, result), pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    planned = item.stash.get(PLANNED, None)
    if planned is None and RESULTS not in item.stash:
        return report
    from .session.records import carried_by

    if call.when == "call" and planned is not None:
        _hold_to_its_check(item, planned, report)
    carried = carried_by(item, report)
    if carried:
        setattr(report, ATTRIBUTE, carried)
    return report


def _hold_to_its_check(item: pytest.Item, planned: PlannedItem, report: pytest.TestReport) -> None:
    """A check item whose check did not run is an error; a skip is placed at the test."""
    if planned.check is not None and report.passed and RESULTS not in item.stash:
        report.outcome = "failed"
        report.longrepr = (
            f"{planned.check.name} did not run: another plugin took this item's call. "
            "Nothing was checked."
        )
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, report.longrepr[2])


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    planned = item.stash.get(PLANNED, None)
    if planned is None or planned.case is None:
        return
    following = nextitem.stash.get(PLANNED, None) if nextitem is not None else None
    if following is None or following.case is not planned.case:
        planned.case.release()


# Reporting


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    state = session.config.stash[SESSION]
    if _is_worker(session.config):
        from .session import xdist

        xdist.to_controller(state)
        return
    state.unfinished()
    _tell_once(session.config)
    if state.settings.reports:
        from .write_reports import write_reports

        write_reports(state)
    session.exitstatus = state.exit_status(session.exitstatus)


def _tell_once(config: pytest.Config) -> None:
    """Shorten, before the terminal prints them, the failures that follow from others."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    failed = terminal.stats.get("failed") if terminal is not None else None
    records = config.stash[SESSION].records
    if failed and records:
        from .dedupe_failures import dedupe_failures

        dedupe_failures(failed, list(records.values()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    from .session import xdist

    xdist.from_worker(node, node.config.stash[SESSION])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    state = config.stash[SESSION]
    for wrong in sorted(state.told_by_workers):
        terminalreporter.write_line(f"ERROR: customop: {wrong}", red=True)
    notes = state.notes.lines(state.settings.max_samples)
    if state.records or notes:
        from ..report.terminal import summary_lines

        counts = state.notes.variants.values()
        terminalreporter.write_sep("=", "customop")
        for line in [*summary_lines(list(state.records.values()), counts), *notes]:
            terminalreporter.write_line(line)
        for path in state.settings.reports:
            if str(path) not in state.notes.unwritten:
                terminalreporter.write_line(f"report: {path}")
    for name, why in state.notes.unwritten.items():
        terminalreporter.write_line(f"ERROR: customop: {name} was not written: {why}", red=True)
