"""The records of what came of an item, as pytest's reports carry them to the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .rerun import rerun_command
from .session import PLANNED, RESULTS, last_words

if TYPE_CHECKING:
    from .results import CheckResult


def carried_by(item: pytest.Item, report: pytest.TestReport) -> list[dict[str, Any]]:
    """The records that a report of this item carries.

    Of the setup: what is about to run, so that a worker's death can be told in full. Of the call:
    what came of it. Of a failing teardown: the same item as an error.
    """
    planned = item.stash.get(PLANNED, None)
    results = item.stash.get(RESULTS, [])
    if planned is None:
        return [_record(one, item, report) for one in results] if report.when == "call" else []
    base = {**planned.record(), "finding": None, "fix": None, "repro": rerun_command(item)}
    if report.when == "setup":
        return [{**base, **_of_report(report, pending=True)}]
    if report.when == "call":
        told = [_record(one, item, report) for one in results]
        if told and (not planned.is_body or told[0]["check"] == planned.check_name):
            return told
        record = {**base, **_of_report(report)}
        if record["outcome"] == "failed" and not planned.is_body:
            record["outcome"] = "error"  # nothing was checked: no finding, and no pass
        return [record, *told]  # a body may have run checks by hand
    return [{**base, **_of_report(report)}] if report.failed else []


def _record(result: CheckResult, item: pytest.Item, report: pytest.TestReport) -> dict[str, Any]:
    record = {**result.record(), "repro": rerun_command(item), "limit": result.limit}
    as_expected = {"failed": "xfailed", "error": "xfailed", "passed": "xpassed"}
    if _outcome(report) == as_expected.get(result.outcome):
        record["outcome"] = _outcome(report)
    return record


def _of_report(report: pytest.TestReport, pending: bool = False) -> dict[str, Any]:
    outcome = "pending" if pending and report.passed else _outcome(report)
    message = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        message = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        message = last_words(report)
    limit = outcome == "skipped"
    return {"outcome": outcome, "message": message, "duration": report.duration, "limit": limit}


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and str(report.longrepr).startswith("[XPASS(strict)]"):
        return "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
