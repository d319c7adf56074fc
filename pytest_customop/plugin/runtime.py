"""The pytest hooks of a session that uses an option, a mark or a fixture of the plugin.

No other session loads them: `session_of` registers them when it is first called.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from .child.items import is_isolated, needs_child
from .child.protocol import is_child
from .fixture_names import BY_HAND, CELL
from .session import properties
from .session.carried import attach, mark_first_compilation
from .session.spare_files import SpareFiles
from .session.state import PLANNED, RECORDS, SESSION, Session

if TYPE_CHECKING:
    from ..plan.items import PlannedItem
    from .session.baseline import SessionBaseline


def session_of(config: pytest.Config) -> Session:
    """The state of a session, created at the first call."""
    session = config.stash.get(SESSION, None)
    if session is None:
        session = config.stash[SESSION] = Session(config)
        config.pluginmanager.register(Runtime(session), "customop-runtime")
        config.pluginmanager.register(SpareFiles(), "customop-spare-files")
        if config.pluginmanager.has_plugin("terminal"):
            from .progress import show_progress

            show_progress(config)
    return session


def apply_options(config: pytest.Config) -> None:
    """Validate the options, and start what they require.

    Raises:
        pytest.UsageError: for a value that is not allowed, or not possible here.
    """
    session = session_of(config)
    session.validate_command_line()
    settings = session.settings
    if settings.baseline or settings.update_baseline or settings.baseline_strict:
        from .session import baseline

        session.baseline = baseline.load(config, settings)
        config.pluginmanager.register(session.baseline, "customop-baseline")
    if settings.fuzz:
        from .generated import validate_hypothesis

        validate_hypothesis(config)
    if session.settings.timeout:
        from .child.pytest_timeout import validate_timer

        validate_timer(config, session)
    if session.settings.isolate == "on":
        from .child.controller import isolate

        isolate(config, session)
    if (session.settings.harvest or session.settings.harvest_save) and not is_child(config):
        from .harvest.plugin import harvest

        harvest(config, session)
    scans = settings.scan or settings.scan_save or settings.scan_examples
    if scans and not is_child(config):
        from .scan.plugin import scan

        scan(config, session)
    if config.getoption("customop_checks") and not _is_worker(config):
        from .info_options import validate_check_names

        validate_check_names(session)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class Runtime:
    """The plugin object that has the hooks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # Collection

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        callspec = getattr(item, "callspec", None)
        planned: Any = callspec.params.get(CELL) if callspec is not None else None
        if planned is None:
            return
        item.stash[PLANNED] = planned
        properties.add_case(item, planned)
        if planned.skip is None and needs_child(planned, self._session.settings):
            from .child.controller import isolate

            isolate(item.config, self._session)
        if self._session.settings.timeout:
            from .child.pytest_timeout import add_time_limit

            add_time_limit(item, self._session)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _deselect_empty(config, items)
        wrong = self._session.wrong_names()
        if not wrong:
            others = _keep_shard(self._session, items)
            if others:
                config.hook.pytest_deselected(items=others)
            if config.getoption("maxfail"):
                from .order import quick_first

                quick_first(items)
            return
        if not _is_worker(config):
            raise pytest.UsageError(wrong[0])
        # A usage error in a worker would look like an internal error, so the controller prints it.
        items.clear()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = [item for item in session.items if PLANNED in item.stash]
        planned = [item.stash[PLANNED] for item in items]
        isolated = self._session.settings.isolate == "on"
        runs_here = isolated == is_child(session.config)
        if planned and runs_here and not session.config.option.collectonly:
            from ..run import fresh

            if fresh.needs_fresh_process(planned):
                fresh.start()
            if not isolated and not self._session.settings.timeout:
                from ..run.prepare import prepare_checks
                from .session.xdist import worker_count

                items_here = [item for item in items if not is_isolated(item)]
                prepare_checks(
                    [(item.stash[PLANNED], _surroundings(item)) for item in items_here],
                    worker_count(session.config),
                )

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> str | None:
        """Announce the compilations, which slow down a first session."""
        if config.get_verbosity() < 0 or config.option.collectonly:
            return None
        compiling = sum(_compiles_first(item.stash.get(PLANNED, None)) for item in items)
        if not compiling or self._session.settings.backend != "inductor":
            return None
        from ..compat.compiler import has_stored_code
        from ..core.wording import counted

        if has_stored_code():
            return None
        count = counted(compiling, "item")
        return f"customop: {count} to compile; on a new machine the first may take a minute"

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        facts = self._session.coverage_facts
        for item in items:
            planned = item.stash.get(PLANNED, None)
            if planned is not None:
                facts.deselected.add(planned.op.partition(".")[0])
            elif CELL not in getattr(item, "fixturenames", (CELL,)):
                facts.deselected_others = True
                facts.deselected_by_hand |= BY_HAND in getattr(item, "fixturenames", ())

    # Running

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        planned = pyfuncitem.stash.get(PLANNED, None)
        if planned is None:
            return None
        if planned.is_body:
            self._session.on_phase("body")
            return None
        if planned.check is None or planned.case is None:
            pytest.fail(f"{planned.skip} (--customop-require-devices)", pytrace=False)
        from .run_item import run_item
        from .session.xdist import share_of_threads

        with share_of_threads(pyfuncitem.config):
            run_item(pyfuncitem, planned, self._session)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        planned = item.stash.get(PLANNED, None)
        if planned is None and RECORDS not in item.stash:
            return report
        from .session.records import records_of

        if call.when == "call" and planned is not None:
            _fail_if_not_run(item, planned, report)
            _place_skip(item, report)
        records = records_of(item, report)
        if records:
            attach(report, records)
        if call.when == "call":
            properties.add_results(item, report, records)
        elif call.when == "setup" and report.passed and _compiles_first(planned):
            mark_first_compilation(report)
        return report

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        planned = item.stash.get(PLANNED, None)
        if planned is None or planned.case is None:
            return
        following = nextitem.stash.get(PLANNED, None) if nextitem is not None else None
        following_cases = following.cases if following is not None else ()
        for case in planned.cases:
            if case not in following_cases:
                case.release()

    # Reporting

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._session.record_report(report)

    def pytest_unconfigure(self) -> None:
        from ..core import fresh_process

        fresh_process.stop()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if _is_worker(session.config):
            from .session import xdist

            xdist.to_controller(self._session)
            return
        self._session.record_unfinished()
        self._dedupe_failures(session.config)
        required = self._session.settings.require_coverage
        if (self._session.records or required) and not session.config.option.collectonly:
            from .session.coverage import judge

            self._session.coverage = judge(self._session, session)
        if self._session.settings.reports:
            from .write_reports import write_reports

            write_reports(self._session)
        if self._session.baseline is not None and not session.config.option.collectonly:
            self._finish_baseline(session, self._session.baseline)
        session.exitstatus = self._session.exit_status(session.exitstatus)

    def _finish_baseline(self, session: pytest.Session, baseline: SessionBaseline) -> None:
        from ..baseline.on_disk import BaselineError

        try:
            baseline.finish(session, self._session.records.values())
        except BaselineError as error:
            self._session.omissions.unwritten[baseline.name] = str(error)
        except OSError as error:
            self._session.omissions.unwritten[baseline.name] = error.strerror or str(error)

    def _dedupe_failures(self, config: pytest.Config) -> None:
        """Shorten the failures that follow from others, before the terminal prints them."""
        terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        failed = terminal.stats.get("failed") if terminal is not None else None
        records = list(self._session.records.values())
        if failed and records:
            from .dedupe_failures import dedupe_failures

            dedupe_failures(failed, records, config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        from .session import xdist

        xdist.from_worker(node, self._session)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from .summary import print_summary

        print_summary(terminalreporter, self._session)


def _surroundings(item: pytest.Item) -> tuple[Any, ...]:
    """The file, class and fixtures of an item. If they are equal, items may call each other's ops."""
    fixtures = tuple(getattr(item, "fixturenames", ()))
    return item.path, getattr(item, "cls", None), fixtures


def _deselect_empty(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the items without content: their body, or their checks, are not selected."""
    empty = [
        item
        for item in items
        if item.stash.get(PLANNED, None) is None and CELL in getattr(item, "fixturenames", ())
    ]
    if empty:
        items[:] = [item for item in items if item not in empty]
        config.hook.pytest_deselected(items=empty)


def _keep_shard(session: Session, items: list[pytest.Item]) -> list[pytest.Item]:
    """Leave the items of the session's shard in the list, and return the others."""
    shard = session.settings.shard
    if shard is None:
        return []
    from ..plan.shards import split
    from .planning import case_of

    items[:], others, session.omissions.shard = split(
        items, case_of, lambda item: item.nodeid, shard, session.settings.seconds
    )
    return others


def _fail_if_not_run(item: pytest.Item, planned: PlannedItem, report: pytest.TestReport) -> None:
    """Turn the report of a check item that passed into a failure if the check did not run."""
    if planned.check is not None and report.passed and RECORDS not in item.stash:
        report.outcome = "failed"
        report.longrepr = (
            f"{planned.check.name} did not run: another plugin took this item's call. "
            "Nothing was checked."
        )


def _compiles_first(planned: PlannedItem | None) -> bool:
    """Whether an item that is about to run may be the first of its process that compiles."""
    if planned is None or planned.case is None or planned.check is None:
        return False
    if planned.check.cost != "compile":
        return False
    from ..compat.compiler import has_compiled

    return not has_compiled(planned.case.backend)


def _place_skip(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give a skip the location of the test instead of the plugin's."""
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, report.longrepr[2])
