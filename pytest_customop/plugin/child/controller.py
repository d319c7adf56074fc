"""The plugin that lets a child process run the marked items, and logs their reports in this process.

Other items run as always.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ...run.record import ResultRecord, from_wire
from ..read_options import POSIX, where_given
from ..session.carried import error_of
from ..session.records import record_of
from ..session.state import PLANNED, Session
from . import protocol
from .exit_causes import ProcessExit
from .fatal_calls import FatalCalls
from .generated_input import case_of
from .item_log import ItemLog
from .items import is_isolated
from .reusable import NotCollected, ReusableChild
from .xdist_emulation import measures_coverage

if TYPE_CHECKING:
    from ...cases.case import Case
    from ...checks import Check
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult

# The phases in which a variant, not the item as a whole, ends the child.
_IN_A_CALL = (protocol.DRAW, protocol.EAGER, protocol.CHECK)

_NAME = "customop-isolation"  # of the plugin


def isolate(config: pytest.Config, session: Session) -> None:
    """Let a child process run the items that `is_isolated` selects, unless this session is a child itself.

    Raises:
        pytest.UsageError: if that is not possible.
    """
    if protocol.is_child(config) or config.pluginmanager.has_plugin(_NAME):
        return
    if not POSIX:
        raise pytest.UsageError(f"{where_given(config, 'isolate')}: needs Linux or macOS")
    if config.getoption("usepdb", False):
        raise pytest.UsageError(
            f"{where_given(config, 'isolate')}: --pdb needs the process that runs the tests"
        )
    config.pluginmanager.register(Isolation(config, session), _NAME)


class Isolation:
    """The plugin of `--customop-isolate`, in the session or in each worker of pytest-xdist."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._child = ReusableChild(config, session.settings)
        self._may_do_without = session.settings.isolate == "auto"
        self._fatal = FatalCalls()
        self._generated: bytes | None = None  # the input that the child tries
        self._call: bytes | None = None  # the call that the child is in

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Prepare for the items of the child while other items run here."""
        if not session.config.option.collectonly:
            self._child.prepare([item for item in session.items if is_isolated(item)])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Let the child run a marked item; everything else runs as always."""
        if not is_isolated(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            self._run(item, nextitem)
        except BaseException:  # Ctrl-C above all
            self._child.kill()
            raise
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        planned = item.stash[PLANNED]
        assert planned.case is not None
        log = ItemLog(item)
        self._generated = None
        failure: ProcessExit | NotCollected | None = None
        if planned.variants:
            failure = self._run_variants(item, planned, nextitem, log)
        elif planned.check is not None:
            failure = self._fatal.end_of_sample(planned.case)
        if not planned.variants and failure is None:
            failure = self._run_in_child(item, nextitem, log, [])
            if isinstance(failure, ProcessExit) and failure.is_of_teardown:
                failure = self._torn_down_again(item, nextitem, [], failure)
            elif isinstance(failure, ProcessExit) and failure.may_be_of_earlier_calls:
                failure = self._again(item, nextitem, log, [], failure)
        if failure is not None and self._may_do_without and _has_no_child(failure):
            log.skip(_why_no_child(failure, planned))
        elif isinstance(failure, ProcessExit) and planned.fuzz is not None:
            log.fail_with(self._of_generated(planned, planned.case, failure))
        elif isinstance(failure, ProcessExit):
            self._fatal.add_sample(planned.case, failure)
            result = _result_of(planned.check, planned.case, failure, self._call)
            log.fail_with(replace(result, place=planned.place))
        elif failure is not None:
            log.fail(str(failure))
        log.tear_down(nextitem)

    def _of_generated(self, planned: PlannedItem, base: Case, failure: ProcessExit) -> CheckResult:
        """The result of an item whose child has ended while it tried a generated input."""
        case = case_of(planned, self._generated)
        if case is None or failure.phase not in _IN_A_CALL:
            return replace(_result_of(planned.check, base, failure), place=planned.place)
        result = _result_of(planned.check, case, failure)
        if failure.phase == protocol.DRAW:
            return result
        from ...fuzz.paste import with_sample  # torch

        return with_sample(result, case, listed=True)

    def _run_variants(
        self,
        item: pytest.Item,
        planned: PlannedItem,
        nextitem: pytest.Item | None,
        log: ItemLog,
    ) -> ProcessExit | NotCollected | None:
        """Run an item of variants. If one of them ends the child, another child continues.

        Returns why the item as a whole did not finish; None if it did.
        """
        from .crash_results import as_reported

        assert planned.check is not None
        finished = [
            record_of(item, as_reported(planned.check, variant.case, known))
            for variant in planned.variants
            if (known := self._fatal.end_of_variant(variant.case)) is not None
        ]
        # Not run again after a death in the teardown: variants beyond the sample, and fatal ones.
        avoided = {variant.case.variant for variant in planned.variants if variant.case.beyond}
        avoided |= {record.place.variant for record in finished}
        while True:
            done = {record.place.variant for record in finished}
            finished += [record_of(item, result) for result in self._fatal.not_run(planned, done)]
            failure = self._run_in_child(item, nextitem, log, finished)
            if isinstance(failure, ProcessExit) and failure.is_of_teardown:
                kept_records = [record for record in finished if record.place.variant in avoided]
                return self._torn_down_again(item, nextitem, kept_records, failure)
            done = {record.place.variant for record in finished}
            left = [
                variant.case for variant in planned.variants if variant.case.variant not in done
            ]
            if not isinstance(failure, ProcessExit) or failure.phase not in _IN_A_CALL or not left:
                return failure
            if failure.may_be_of_earlier_calls:
                count = len(finished)
                next_failure = self._again(item, nextitem, log, finished, failure)
                if not isinstance(next_failure, ProcessExit):
                    return next_failure
                if len(finished) > count:
                    continue
                failure = next_failure
            self._fatal.add_variant(left[0], failure)
            result = _result_of(planned.check, left[0], failure, self._call)
            finished.append(record_of(item, result))
            avoided.add(left[0].variant)

    def _again(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        log: ItemLog,
        finished: list[ResultRecord],
        earlier: ProcessExit | NotCollected | None,
    ) -> ProcessExit | NotCollected | None:
        """Continue an item in a new child, where no earlier call can have damaged the memory.

        Args:
            finished: as in `_run_in_child`.
            earlier: how the previous child has ended.
        """
        count = len(finished)
        failure = self._run_in_child(item, nextitem, log, finished, shows_calls=True)
        if failure is None or len(finished) > count:
            self._warn_of_damage(item, earlier)
        return failure

    def _torn_down_again(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        kept_records: list[ResultRecord],
        earlier: ProcessExit | NotCollected | None,
    ) -> ProcessExit | NotCollected | None:
        """Run an item again whose results are logged, because its child died in the teardown.

        A call has damaged memory that is freed there. It may be a call of another item, or one with inputs
        that no sample shows: the new child makes neither. Returns the exit if the new child dies too.

        Args:
            kept_records: the records of the variants that do not run again.
        """
        if self._run_in_child(item, nextitem, None, kept_records) is not None:
            return earlier
        self._warn_of_damage(item, earlier)
        return None

    def _run_in_child(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        log: ItemLog | None,
        finished: list[ResultRecord],
        shows_calls: bool = False,
    ) -> ProcessExit | NotCollected | None:
        """Run an item in the child; returns why it did not finish, None if it did.

        Args:
            log: where its reports and warnings go; None: nowhere.
            finished: the records of variants that do not run again; those that end are added.
            shows_calls: as in `protocol.Run`.
        """
        self._call = None
        try:
            for message in self._child.run(item, nextitem, tuple(finished), shows_calls):
                if isinstance(message, protocol.VariantEnded):
                    finished.append(from_wire(message.record))
                else:
                    self._handle(message, log)
        except (ProcessExit, NotCollected) as failure:
            return failure
        return None

    def _handle(self, message: Any, log: ItemLog | None) -> None:
        hook = self._config.hook
        if isinstance(message, protocol.Ended):
            if message.interrupt:
                raise KeyboardInterrupt(message.reason)
            raise pytest.exit.Exception(message.reason, message.returncode)
        if log is None:
            return
        if isinstance(message, protocol.Report):
            report = hook.pytest_report_from_serializable(config=self._config, data=message.data)
            if report.when == "setup" and report.failed and self._may_do_without:
                log.skip(f"the set-up of the test fails there: {error_of(report)}")
            else:
                log.log(report)
        elif isinstance(message, protocol.Generated):
            self._generated = message.data
        elif isinstance(message, protocol.Call):
            self._call = message.data
        elif isinstance(message, protocol.Warned):
            self._warn(message)

    def _warn(self, warned: protocol.Warned) -> None:
        warning = warnings.WarningMessage(
            warned.text, warned.category, warned.filename, warned.lineno
        )
        origin = {"when": warned.when, "nodeid": warned.nodeid, "location": warned.location}
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": warning, **origin}
        )

    def _warn_of_damage(
        self, item: pytest.Item, earlier: ProcessExit | NotCollected | None
    ) -> None:
        text = (
            f"{item.nodeid}: a child process {earlier}, and a new one does not: an earlier call has "
            "damaged its memory"
        )
        path, line, _ = item.location
        location = (path, line or 0, item.name)
        self._warn(
            protocol.Warned(
                text=text,
                category=pytest.PytestWarning,
                filename=path,
                lineno=line or 0,
                when="runtest",
                nodeid=item.nodeid,
                location=location,
            )
        )

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """pytest-timeout watches the child's items in the child."""
        return is_isolated(item) or None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """End the child before pytest-cov collects what the child has measured."""
        result = yield
        if measures_coverage(self._config):
            self._child.finish()
            self._child.end()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """The child ends while this process writes reports."""
        self._child.finish()

    def pytest_unconfigure(self) -> None:
        """End the child, however the session has ended."""
        self._child.end()


def _has_no_child(failure: ProcessExit | NotCollected) -> bool:
    """Whether an item did not begin: the child did not start, or did not collect it."""
    return isinstance(failure, NotCollected) or failure.phase in (protocol.START, protocol.COLLECT)


def _why_no_child(failure: ProcessExit | NotCollected, planned: PlannedItem) -> str:
    """In one line, why the child did not start, or did not collect the item."""
    if isinstance(failure, ProcessExit):
        assert planned.case is not None
        return _result_of(planned.check, planned.case, failure).message
    first, *more = str(failure).strip().splitlines()
    return ": ".join([first, *(line.removeprefix("E").strip() for line in more[-1:])])


def _result_of(
    check: Check | None, case: Case, ended: ProcessExit, call: bytes | None = None
) -> CheckResult:
    from .crash_results import result_of

    return result_of(check, case, ended, call)
