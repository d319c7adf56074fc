"""The records of what came of an item, as pytest's reports carry them to the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .rerun import rerun_command
from .state import PLANNED, RESULTS, last_words

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult


def carried_by(item: pytest.Item, report: pytest.TestReport) -> list[dict[str, Any]]:
    """The records that a report of this item carries.

    Of the setup: what is about to run, so that a worker's death can be told in full. Of the call:
    what came of it. Of a failing teardown: the same item as an error.
    """
    planned = item.stash.get(PLANNED, None)
    results = item.stash.get(RESULTS, [])
    if report.when == "teardown":
        return [_of_item(item, planned, report)] if planned is not None and report.failed else []
    told = [_record(one, item, report) for one in results] if report.when == "call" else []
    if planned is None or (told and _is_of(told[0], planned)):
        return told
    record = _of_item(item, planned, report)
    if report.when == "setup" and report.passed:
        record["outcome"] = "pending"
    elif report.when == "call" and record["outcome"] == "failed" and not planned.is_body:
        record["outcome"] = "error"  # nothing was checked: no finding, and no pass
    return [record, *told]  # a body may have run checks by hand


def _is_of(record: dict[str, Any], planned: PlannedItem) -> bool:
    """Whether it tells what came of the item itself, and not of a check that its body has run."""
    return not planned.is_body or record["check"] == planned.check_name


def _of_item(item: pytest.Item, planned: PlannedItem, report: pytest.TestReport) -> dict[str, Any]:
    base = {**planned.record(), "finding": None, "fix": None, "repro": rerun_command(item)}
    return {**base, **_of_report(report)}


def _record(result: CheckResult, item: pytest.Item, report: pytest.TestReport) -> dict[str, Any]:
    record = {**result.record(), "repro": rerun_command(item), "unjudged": result.unjudged}
    as_expected = {"failed": "xfailed", "error": "xfailed", "passed": "xpassed"}
    if _outcome(report) == as_expected.get(result.outcome):
        record["outcome"] = _outcome(report)
    return record


def _of_report(report: pytest.TestReport) -> dict[str, Any]:
    outcome = _outcome(report)
    message = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        message = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        message = last_words(report)
    limit = outcome == "skipped"
    return {"outcome": outcome, "message": message, "duration": report.duration, "unjudged": limit}


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and str(report.longrepr).startswith("[XPASS(strict)]"):
        return "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
