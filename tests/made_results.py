"""Reports made by hand, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_customop.plan.place import Place
from pytest_customop.report.json_file import as_report, environment
from pytest_customop.run.record import FindingRecord, Outcome, ResultRecord

SETTINGS: dict[str, Any] = {
    "seed": 0,
    "backend": "inductor",
    "devices": ["cpu"],
    "command": ["pytest"],
    "date": "2026-01-02T03:04:05+00:00",
}


def result(
    outcome: Outcome = "passed",
    finding: str | None = None,
    *,
    test: str = "test_it.py::test_op",
    op: str = "ns::op",
    check: str | None = "fake.forward",
    sample: str | None = "0",
    variant: str | None = None,
    device: str = "cpu",
    **more: Any,
) -> ResultRecord:
    """A result of a test of `ns::op`; `more` are further fields of the record."""
    place = Place(device, "float32", False, "contiguous", sample, variant, variant and "shape")
    if sample is None:
        place = Place(device)
    ids = ("cpu-float32-nograd", sample, "variants" if variant else None, check)
    nodeid = f"{test}[{'-'.join(filter(None, ids)) if sample else device}]"
    record = ResultRecord(
        nodeid,
        op,
        check,
        place,
        outcome,
        message="a message" * (outcome != "passed"),
        finding=FindingRecord(finding, "change it") if finding else None,
        repro=f"pytest '{nodeid}'",
    )
    return replace(record, **more)


def report(records: Iterable[ResultRecord] = (), **settings: Any) -> dict[str, Any]:
    """A report of these results; `settings` change the environment."""
    torch = {"torch": "2.13.0", "cuda": None, "gpu": None}
    return as_report(environment(torch, "9.0.0", SETTINGS) | settings, records)


def write(path: Path, content: object) -> str:
    """Write a report or anything else as JSON, and return the path."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)
