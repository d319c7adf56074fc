"""What is known of the released packages is an expected failure, each with its finding."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest
from known import KNOWN, Known, expected
from known_of_variants import OF_VARIANTS

from pytest_customop.plugin.session.carried import attach, attached
from pytest_customop.run.record import ResultRecord

_BAD = ("failed", "error")

collect_ignore = ["suites"]  # test_harvest.py runs them


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest counts the failures
def pytest_runtest_logreport(report: pytest.TestReport) -> Generator[None, object, object]:
    """Expect the known findings, strictly: a release that fixes one is noticed.

    An item of variants has a record a variant, and each is compared with what is known of it. Another
    finding than the known one stays a failure.
    """
    original = attached(report)
    records = [_compared(record) for record in original]
    if records != original:
        attach(report, records)
        gone = [_known_code(record) for record in records if record.outcome == "xpassed"]
        if gone:
            report.outcome = "failed"
            report.longrepr = f"[XPASS(strict)] known and not found: {', '.join(gone)}"
        elif not any(record.outcome in _BAD for record in records):
            report.outcome = "skipped"
            known = (_known_code(record) for record in records if record.outcome == "xfailed")
            report.wasxfail = ", ".join(dict.fromkeys(known))
    return (yield)


def _compared(record: ResultRecord) -> ResultRecord:
    """The record, with what it means that a finding is known."""
    entry = _known(record)
    if entry is None:
        return record
    codes, known = entry
    if record.outcome in _BAD and record.finding and record.finding.code in codes.split("|"):
        return replace(record, outcome="xfailed")
    # A note is not a failure. A skip is no proof: another check may have reported the same crash.
    passed = record.outcome in ("passed", "noted") and not known.by_chance
    return replace(record, outcome="xpassed") if passed else record


def _known(record: ResultRecord) -> tuple[str, Known] | None:
    return expected(record.nodeid, record.place.variant, (*KNOWN, *OF_VARIANTS))


def _known_code(record: ResultRecord) -> str:
    entry = _known(record)
    if entry is None:
        return ""
    codes, known = entry
    variant = f" on {record.place.variant}" if record.place.variant else ""
    return f"{codes}{variant} ({known.reason})"
