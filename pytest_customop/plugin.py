"""pytest's hooks, nothing else; the fixtures are in `fixtures.py`. Loading it imports no torch.

Sessions without marked tests load it too, so that what only those need is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from . import fixtures, hookspecs
from .marks import CELL, DEVICE, DTYPE, NAME, concerns
from .options import BY_DEFAULT, add_options
from .session import ATTRIBUTE, PLANNED, RESULTS, SESSION, Reports, Session

if TYPE_CHECKING:
    from .checks import Check
    from .planned import Planned

_MARKER = (
    f"{NAME}(op, samples, *, devices=None, dtypes=None, requires_grad=None, "
    "layouts=('contiguous',), axes=None, skip_if=None, checks=None, tolerances=None, "
    "gradcheck=None, reference=None, errors=(), variants=None, id=None): check a PyTorch custom "
    "operator on these samples, spread over devices, dtypes, requires_grad and layouts; every check "
    "on every case is an item. Use pytest_customop.customop_cases(...), which is typed."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)
    # Not by `pytest_plugins`: for a name there pytest reads the metadata of all that is installed.
    pluginmanager.register(fixtures, "customop-fixtures")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    session = config.stash[SESSION] = Session(config)
    config.pluginmanager.register(Reports(session), "customop-session")
    if not session.asked:
        return
    session.validate_command_line()
    if session.settings.timeout:
        from .timeouts import refuse_without_timer

        refuse_without_timer(config, session)
    if session.settings.isolate:
        from .child import isolate

        isolate(config, session)
    if config.getoption("customop_checks") and not _is_worker(config):
        from .cmdline import refuse_near_misses

        refuse_near_misses(session)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_customop_register_checks() -> Iterable[Check]:
    from .checks import builtin_checks

    return builtin_checks()


def pytest_report_header(config: pytest.Config) -> str:
    session = config.stash[SESSION]
    return session.settings.header() if session.asked else BY_DEFAULT


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not (config.getoption("customop_explain") or config.getoption("customop_list_checks")):
        return None
    from .cmdline import print_instead

    return print_instead(config)


# Collection


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    if not concerns(collector, obj):
        return None
    from .collection import items_of
    from .parametrize import mistakes_told

    with mistakes_told():
        return items_of(collector, name, obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not {CELL, DEVICE, DTYPE}.isdisjoint(metafunc.fixturenames):
        from .parametrize import parametrize

        parametrize(metafunc)


def pytest_itemcollected(item: pytest.Item) -> None:
    callspec = getattr(item, "callspec", None)
    planned: Any = callspec.params.get(CELL) if callspec is not None else None
    if planned is None:
        return
    item.stash[PLANNED] = planned
    if item.config.stash[SESSION].settings.timeout:
        from .timeouts import limit

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
    entering = pyfuncitem.config.stash[SESSION].entering
    if planned.is_body:
        entering("body")
        return None
    if planned.check is None or planned.case is None:
        pytest.fail(f"{planned.skip} (--customop-require-devices)", pytrace=False)
    from .rerun import failure_text
    from .timeouts import run_in_time
    from .workers import share_of_threads

    with share_of_threads(pyfuncitem.config):
        result = run_in_time(planned, entering, pyfuncitem.config.stash[SESSION].hung)
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
    from .records import carried_by

    if call.when == "call" and planned is not None:
        _hold_to_its_check(item, planned, report)
    carried = carried_by(item, report)
    if carried:
        setattr(report, ATTRIBUTE, carried)
    return report


def _hold_to_its_check(item: pytest.Item, planned: Planned, report: pytest.TestReport) -> None:
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
        from . import workers

        workers.to_controller(state)
        return
    state.unfinished()
    _tell_once(session.config)
    if state.asked and state.settings.reports:
        from .report.written import write_reports

        write_reports(state)
    session.exitstatus = state.exit_status(session.exitstatus)


def _tell_once(config: pytest.Config) -> None:
    """Shorten, before the terminal prints them, the failures that follow from others."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    failed = terminal.stats.get("failed") if terminal is not None else None
    records = config.stash[SESSION].records
    if failed and records:
        from .report.failures import tell_once

        tell_once(failed, list(records.values()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    from . import workers

    workers.from_worker(node, node.config.stash[SESSION])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from . import workers

    workers.to_worker(node, node.config.stash[SESSION])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    state = config.stash[SESSION]
    for wrong in sorted(state.told_by_workers):
        terminalreporter.write_line(f"ERROR: customop: {wrong}", red=True)
    if not state.records and not state.has_notes:
        return
    notes = state.notes.lines(state.settings.max_samples)
    if state.records or notes:
        from .report.terminal import summary_lines

        counts = state.notes.neighbours.values()
        terminalreporter.section("customop")
        for line in [*summary_lines(list(state.records.values()), counts), *notes]:
            terminalreporter.write_line(line)
        for path in state.settings.reports:
            if str(path) not in state.notes.unwritten:
                terminalreporter.write_line(f"report: {path}")
    for name, why in state.notes.unwritten.items():
        terminalreporter.write_line(f"ERROR: customop: {name} was not written: {why}", red=True)
