"""Make the records of an item, from its plan, the results of its checks, and pytest's report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ...compat.pytest_private import is_expected_to_fail
from ...run.known import with_known
from ...run.record import Outcome, ResultRecord
from ..options import ini_value
from .carried import error_of
from .rerun import rerun_command, script_of, written_script
from .state import HARVESTED, NO_CHILD, PLANNED, RECORDS, SESSION

if TYPE_CHECKING:
    from ...plan.items import PlannedItem, PlannedVariant
    from ...run.results import CheckResult

# pytest's outcomes for these outcomes of a check, under an `xfail` mark.
_UNDER_XFAIL: dict[Outcome, Outcome] = {
    "failed": "xfailed",
    "error": "xfailed",
    "passed": "xpassed",
}


def record_of(
    item: pytest.Item, result: CheckResult, *, number: int = 0, by_hand: bool = False
) -> ResultRecord:
    """The record of a check that an item has run, with its text.

    Args:
        number: distinguishes the scripts of an item that runs checks by hand.
        by_hand: whether the fixture `customop_check` ran the check. Then the caller applies known failures.
    """
    rerun = rerun_command(item, result.place.variant)
    bad = result.outcome in ("failed", "error")
    repro_script = script_of(item, result) if bad else None
    script = written_script(item, repro_script, result, number) if repro_script else None
    is_shown = bad or result.outcome == "noted"
    text = result.text(rerun, script, item.stash.get(HARVESTED, None)) if is_shown else ""
    file, line = _place_in_source(item)
    record = replace(
        result.record(item.nodeid),
        repro=rerun,
        script=repro_script.text if repro_script else "",
        file=file,
        line=line,
        text=text,
        by_hand=by_hand,
    )
    if by_hand:
        return record
    planned = item.stash.get(PLANNED, None)
    if planned is not None and planned.known:
        record = with_known(record, planned.known, strict_by_default(item.config))
    return with_baseline(item, record)


def with_baseline(item: pytest.Item, record: ResultRecord) -> ResultRecord:
    """The record with the outcome that the baseline gives it, if nothing else expects a failure."""
    baseline = item.config.stash[SESSION].baseline
    if baseline is None or record.outcome != "failed" or is_expected_to_fail(item):
        return record
    return baseline.with_baseline(record)


def strict_by_default(config: pytest.Config) -> bool:
    """Whether a known failure that passes fails the run: yes, unless `xfail_strict` says otherwise."""
    written = ini_value(config, "xfail_strict") is not None
    return bool(config.getini("xfail_strict")) if written else True


def records_of(item: pytest.Item, report: pytest.TestReport) -> list[ResultRecord]:
    """The records that a report of an item carries.

    After the setup: what is about to run, in case the process ends before the item does. After the
    call: the results. After a teardown that failed: the item, as an error.
    """
    planned = item.stash.get(PLANNED, None)
    if report.when == "teardown":
        return [_of_item(item, planned, report)] if planned is not None and report.failed else []
    item_records = item.stash.get(RECORDS, []) if report.when == "call" else []
    records = [_with_outcome(record, report) for record in item_records]
    if planned is None or (records and not records[0].by_hand):
        return records
    if report.when == "setup" and report.skipped and planned.variants:
        return [_not_run(item, planned, variant, report) for variant in planned.variants]
    record = _of_item(item, planned, report)
    if report.when == "setup" and report.passed:
        record = replace(record, outcome="pending")
    elif report.when == "call" and record.outcome == "failed" and not planned.is_body:
        record = replace(record, outcome="error")  # nothing was checked: no finding, and no pass
    return [record, *records]


def _not_run(
    item: pytest.Item, planned: PlannedItem, variant: PlannedVariant, report: pytest.TestReport
) -> ResultRecord:
    """The record of a variant of an item that is skipped as a whole."""
    from ...plan.items import place_of

    record = _of_item(item, planned, report)
    return replace(
        record,
        place=place_of(variant.case),
        message=variant.skip or record.message,
        without_child=_without_child(item, variant),
    )


def _without_child(item: pytest.Item, variant: PlannedVariant) -> str | None:
    """How a variant could be run, if it or its item needs a child process; otherwise None."""
    default = item.config.stash[SESSION].settings.without_child if variant.needs_child else None
    return item.stash.get(NO_CHILD, default)


def _of_item(item: pytest.Item, planned: PlannedItem, report: pytest.TestReport) -> ResultRecord:
    """The record of an item from pytest's report alone."""
    outcome = _outcome(report)
    message = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        message = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        message = error_of(report)
    file, line = _place_in_source(item)
    return ResultRecord(
        nodeid=item.nodeid,
        op=planned.op,
        check=planned.check_name or None,
        place=planned.place,
        outcome=outcome,
        message=message,
        unjudged=outcome == "skipped",
        repro=rerun_command(item),
        file=file,
        line=line,
        duration=report.duration,
    )


def _place_in_source(item: pytest.Item) -> tuple[str | None, int | None]:
    """The file of the test and the line on which it begins, with its first decorator."""
    file, line, _ = item.location
    return file, None if line is None else line + 1


def _with_outcome(record: ResultRecord, report: pytest.TestReport) -> ResultRecord:
    """The record of a check; an `xfail` mark of the test changes its outcome."""
    outcome = _outcome(report)
    return (
        replace(record, outcome=outcome) if outcome == _UNDER_XFAIL.get(record.outcome) else record
    )


def _outcome(report: pytest.TestReport) -> Outcome:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and str(report.longrepr).startswith("[XPASS(strict)]"):
        return "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
