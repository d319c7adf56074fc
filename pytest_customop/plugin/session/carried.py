"""Records as an attribute of pytest's reports, which carries them from workers and child processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ...run.record import ResultRecord, from_wire, to_wire

_ATTRIBUTE = "customop"
_COMPILES = "customop_compiles"


def attach(report: pytest.TestReport, records: Sequence[ResultRecord]) -> None:
    """Attach these records to a report."""
    setattr(report, _ATTRIBUTE, [to_wire(record) for record in records])


def attached(report: pytest.TestReport) -> list[ResultRecord]:
    """The records that a report carries."""
    plain: list[dict[str, Any]] = getattr(report, _ATTRIBUTE, [])
    return [from_wire(record) for record in plain]


def mark_first_compilation(report: pytest.TestReport) -> None:
    """Mark the report of a setup: its item is the first of its process that compiles."""
    setattr(report, _COMPILES, True)


def is_first_compilation(report: pytest.TestReport) -> bool:
    """Whether a report has this mark."""
    return bool(getattr(report, _COMPILES, False))


def error_of(report: pytest.TestReport) -> str:
    """The error of a failed report in one line: what was raised, or else the last line of its text."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).strip().partition("\n")[0]
    return (str(report.longreprtext).strip().splitlines() or [""])[-1]
