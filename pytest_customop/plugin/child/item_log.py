"""The reports of an item that the child runs, logged in this process as pytest's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ..session.carried import attach, attached
from ..session.records import record_of
from ..session.state import NO_CHILD, PLANNED, RECORDS, SESSION
from .items import needs_child

if TYPE_CHECKING:
    from ...run.record import ResultRecord
    from ...run.results import CheckResult


class ItemLog:
    """The reports of one item: those of the child, and those that the child can no longer make."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._next = "setup"  # which report is to come; empty after the teardown

    def log(self, report: pytest.TestReport) -> None:
        """Log a report of the child. The setup is logged once, however many children run the item."""
        if report.when == "setup" and self._next != "setup":
            return
        entered = report.when == "setup" and report.passed
        self._next = "call" if entered else "teardown" if report.when != "teardown" else ""
        self._item.ihook.pytest_runtest_logreport(report=report)

    def fail_with(self, result: CheckResult) -> None:
        """Log the end of the child as the failure of the item, as a note, or as a skip."""
        record = record_of(self._item, result)
        self._item.stash[RECORDS] = [record]
        self.fail(record.reason if record.outcome in ("noted", "skipped") else record.text, record)

    def fail(self, text: str, record: ResultRecord | None = None) -> None:
        """Log a failure in the phase that the child had reached."""
        from ...compat.pytest_private import evaluate_xfail

        if self._next == "setup":
            self.log(self._report("setup", None))
        evaluate_xfail(self._item)  # the item was never set up here
        outcome = record.outcome if record is not None else "failed"
        ending: BaseException = pytest.fail.Exception(text, pytrace=False)
        if outcome in ("noted", "skipped"):
            ending = pytest.skip.Exception(text)
        elif outcome == "xfailed" and record is not None:
            ending = pytest.xfail.Exception(record.known)
        report = self._report(self._next or "teardown", ending)
        report.duration = record.duration if record is not None else 0.0
        if record is not None and report.when == "teardown":
            finding, message = record.finding, record.message
            carried = attached(report)
            attach(report, [replace(old, finding=finding, message=message) for old in carried])
        self.log(report)

    def skip(self, why: str) -> None:
        """Log that the item is skipped because the child cannot run it."""
        self._item.stash[NO_CHILD] = "and a child process cannot run them here"
        settings = self._item.config.stash[SESSION].settings
        what = "these variants could read out of bounds"
        if not needs_child(self._item.stash[PLANNED], settings):
            what = "an earlier call has left the device unusable in this process"
        text = f"{what}, and a child process cannot run them: {why}"
        report = self._report("setup", pytest.skip.Exception(text))
        path, line, _ = self._item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {text}")
        self.log(report)

    def tear_down(self, nextitem: pytest.Item | None) -> None:
        """Tear down what earlier items have left set up here and the next one does not need."""
        from ...compat import pytest_private

        call = pytest.CallInfo.from_call(
            lambda: pytest_private.tear_down(self._item.session, nextitem), when="teardown"
        )
        if call.excinfo is not None or self._next:
            self.log(self._made(call))

    def _report(self, when: Any, error: BaseException | None) -> pytest.TestReport:
        def happens() -> None:
            if error is not None:
                raise error

        return self._made(pytest.CallInfo.from_call(happens, when=when))

    def _made(self, call: pytest.CallInfo[None]) -> pytest.TestReport:
        report: pytest.TestReport = self._item.ihook.pytest_runtest_makereport(
            item=self._item, call=call
        )
        return report
