"""The JSON report, schema 2."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.files import write_whole
from ..run.record import ResultRecord
from .coverage import NamespaceCoverage

SCHEMA = 2


def torch_versions() -> dict[str, str | None]:
    """The versions of torch and of its CUDA; None for both in a process that has not imported torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"torch": None, "cuda": None}
    return {"torch": str(torch.__version__), "cuda": torch.version.cuda}


def environment(
    torch: Mapping[str, str | None], pytest: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The versions and settings that the results hold for.

    Args:
        torch: `torch_versions()` of the process that ran the checks.
        pytest: its version.
        settings: those of the session that decide results.
    """
    return {
        "pytest_customop": __version__,
        "torch": torch.get("torch"),
        "cuda": torch.get("cuda"),
        "pytest": pytest,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **settings,
    }


def as_schema_2(record: ResultRecord) -> dict[str, Any]:
    """A result as the report has it."""
    place, finding = record.place, record.finding
    return {
        "nodeid": record.nodeid,
        "op": record.op,
        "check": record.check,
        "device": place.device,
        "dtype": place.dtype,
        "requires_grad": place.requires_grad,
        "layout": place.layout,
        "sample": place.sample,
        "variant": place.variant,
        "outcome": record.outcome,
        "finding": finding.code if finding else None,
        "message": record.reason,
        "fix": finding.fix if finding else None,
        "known": record.known or None,
        "repro": record.repro,
        "duration": record.duration,
    }


def write(
    path: Path,
    environment: Mapping[str, Any],
    records: Iterable[ResultRecord],
    coverage: Iterable[NamespaceCoverage] = (),
) -> None:
    """Write the report, whole or not at all.

    Raises:
        OSError: if it cannot be written; what stood there before still does.
    """
    results = [as_schema_2(one) for one in records]
    results.sort(key=lambda one: (one["nodeid"], one["op"] or "", one["check"] or ""))
    content = {
        "schema": SCHEMA,
        "environment": dict(environment),
        "results": results,
        "coverage": [one.to_dict() for one in coverage],
    }
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
