"""Records as an attribute of pytest's reports, which carries them from workers and child processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ...run.record import ResultRecord, from_wire, to_wire

_ATTRIBUTE = "customop"


def attach(report: pytest.TestReport, records: Sequence[ResultRecord]) -> None:
    """Have a report carry these records."""
    setattr(report, _ATTRIBUTE, [to_wire(one) for one in records])


def attached(report: pytest.TestReport) -> list[ResultRecord]:
    """The records that a report carries."""
    plain: list[dict[str, Any]] = getattr(report, _ATTRIBUTE, [])
    return [from_wire(one) for one in plain]


def error_of(report: pytest.TestReport) -> str:
    """The error of a failed report in one line: what was raised, or else the last line of its text."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).strip().partition("\n")[0]
    return (str(report.longreprtext).strip().splitlines() or [""])[-1]
