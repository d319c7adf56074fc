"""What came of an item that the child ran, as pytest's reports in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from _pytest.skipping import evaluate_xfail_marks, xfailed_key

from ..session.rerun import failure_text
from ..session.state import ATTRIBUTE, RESULTS

if TYPE_CHECKING:
    from ...run.results import CheckResult


class Log:
    """The reports of one item: those of the child, and those that it can no longer make."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._next = "setup"  # which report is to come

    def take(self, report: pytest.TestReport) -> None:
        """Log a report of the child."""
        entered = report.when == "setup" and report.passed
        self._next = "call" if entered else "teardown" if report.when != "teardown" else ""
        self._item.ihook.pytest_runtest_logreport(report=report)

    def died(self, result: CheckResult) -> None:
        """Log the death of the child as the failure of the item."""
        self._item.stash[RESULTS] = [result]
        self.failed(failure_text(self._item, result), result)

    def failed(self, text: str, result: CheckResult | None = None) -> None:
        """Log a failure at the point that the child had reached."""
        if self._next == "setup":
            self.take(self._report("setup", None))
        # The set-up looks at these marks, and the item was never set up here.
        self._item.stash[xfailed_key] = evaluate_xfail_marks(self._item)
        report = self._report(self._next or "teardown", pytest.fail.Exception(text, pytrace=False))
        report.duration = result.duration if result is not None else 0.0
        if result is not None and report.when == "teardown":
            for record in getattr(report, ATTRIBUTE, ()):
                record.update(finding=result.finding, fix=result.fix, message=result.message)
        self.take(report)

    def torn_down(self, nextitem: pytest.Item | None) -> None:
        """Tear down what earlier items have left set up here and the next one does not need."""
        state: Any = self._item.session._setupstate
        call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
        if call.excinfo is not None or self._next:
            self.take(self._made(call))

    def _report(self, when: Any, error: BaseException | None) -> pytest.TestReport:
        def happens() -> None:
            if error is not None:
                raise error

        return self._made(pytest.CallInfo.from_call(happens, when=when))

    def _made(self, call: pytest.CallInfo[None]) -> pytest.TestReport:
        made: pytest.TestReport = self._item.ihook.pytest_runtest_makereport(
            item=self._item, call=call
        )
        return made
