"""Make the records of an item, from its plan, the results of its checks, and pytest's report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ...run.record import Outcome, ResultRecord
from .carried import error_of
from .rerun import rerun_command
from .state import PLANNED, RESULTS

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult

# The outcomes of pytest that stand for these outcomes of a check, under an `xfail` mark.
_UNDER_XFAIL: dict[Outcome, Outcome] = {
    "failed": "xfailed",
    "error": "xfailed",
    "passed": "xpassed",
}


def records_of(item: pytest.Item, report: pytest.TestReport) -> list[ResultRecord]:
    """The records that a report of an item carries.

    After the setup: what is about to run, in case the process ends before the item does. After the
    call: the results. After a teardown that failed: the item, as an error.
    """
    planned = item.stash.get(PLANNED, None)
    results = item.stash.get(RESULTS, [])
    if report.when == "teardown":
        return [_of_item(item, planned, report)] if planned is not None and report.failed else []
    found = [_of_check(one, item, report) for one in results] if report.when == "call" else []
    if planned is not None and found and found[0].check == planned.check_name:
        return found
    by_hand = [replace(one, by_hand=True) for one in found]  # a body may run checks by hand too
    if planned is None:
        return by_hand
    record = _of_item(item, planned, report)
    if report.when == "setup" and report.passed:
        record = replace(record, outcome="pending")
    elif report.when == "call" and record.outcome == "failed" and not planned.is_body:
        record = replace(record, outcome="error")  # nothing was checked: no finding, and no pass
    return [record, *by_hand]


def _of_item(item: pytest.Item, planned: PlannedItem, report: pytest.TestReport) -> ResultRecord:
    """The record of an item by pytest's report alone."""
    outcome = _outcome(report)
    message = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        message = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        message = error_of(report)
    return ResultRecord(
        nodeid=item.nodeid,
        op=planned.op,
        check=planned.check_name or None,
        place=planned.place,
        outcome=outcome,
        message=message,
        unjudged=outcome == "skipped",
        needs_child=planned.needs_child,
        repro=rerun_command(item),
        duration=report.duration,
    )


def _of_check(result: CheckResult, item: pytest.Item, report: pytest.TestReport) -> ResultRecord:
    """The record of a check; an `xfail` mark of the test changes its outcome."""
    record = replace(result.record(item.nodeid), repro=rerun_command(item))
    outcome = _outcome(report)
    return (
        replace(record, outcome=outcome) if outcome == _UNDER_XFAIL.get(result.outcome) else record
    )


def _outcome(report: pytest.TestReport) -> Outcome:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and str(report.longrepr).startswith("[XPASS(strict)]"):
        return "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
