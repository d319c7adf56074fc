"""The JSON report, schema 2."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from .. import __version__
from ..core.lost_device import error_of
from ..run.record import ResultRecord
from .causes import causes
from .coverage import NamespaceCoverage
from .schema import SCHEMA


def torch_versions() -> dict[str, str | None]:
    """The versions of torch and CUDA and the name of the GPU; None for what this process has not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {"torch": None, "cuda": None, "gpu": None}
    used = torch.cuda.is_initialized() and error_of("cuda") is None
    gpu = torch.cuda.get_device_name() if used else None
    return {"torch": str(torch.__version__), "cuda": torch.version.cuda, "gpu": gpu}


def environment(
    torch: Mapping[str, str | None], pytest: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The versions and settings that the results hold for.

    Args:
        torch: `torch_versions()` of the process that ran the checks.
        pytest: its version.
        settings: the session's settings that affect results, the command line, and the date.
    """
    return {
        "pytest_customop": __version__,
        "torch": torch.get("torch"),
        "cuda": torch.get("cuda"),
        "gpu": torch.get("gpu"),
        "pytest": pytest,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **settings,
    }


def as_schema_2(record: ResultRecord, cause: ResultRecord | None = None) -> dict[str, Any]:
    """A result as the report has it.

    Args:
        cause: the record of the finding that this one follows from or repeats.
    """
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
        "reason": record.skip_code,
        "why_noted": record.why_noted or None,
        "unjudged": record.unjudged,
        "changed": record.variant_description or None,
        "arguments": list(record.arguments),
        "evidence": record.evidence or None,
        # The picture of the cause shows the same.
        "picture": dict(record.picture) if record.picture and not cause else None,
        "cause": _identity(cause) if cause else None,
        "script": record.script or None,
        "repro": record.repro,
        "seed": record.seed,
        "file": record.file,
        "line": record.line,
        "duration": record.duration,
    }


def _identity(record: ResultRecord) -> dict[str, Any]:
    """The fields that identify a result."""
    return {
        "nodeid": record.nodeid,
        "op": record.op,
        "check": record.check,
        "variant": record.place.variant,
    }


def findings_of(records: Iterable[ResultRecord]) -> dict[str, dict[str, Any]]:
    """The explanations of the findings of these records, by code."""
    findings = {record.finding.code: record.finding for record in records if record.finding}
    return {
        code: {
            "meaning": findings[code].meaning,
            "why": findings[code].why,
            "fix": findings[code].fix,
            "before": findings[code].before,
            "after": findings[code].after,
            "docs": list(findings[code].docs),
        }
        for code in sorted(findings)
    }


def as_report(
    environment: Mapping[str, Any],
    records: Iterable[ResultRecord],
    coverage: Iterable[NamespaceCoverage] = (),
    omitted: Iterable[str] = (),
) -> dict[str, Any]:
    """The report, from which every format is rendered.

    Args:
        environment: `environment()`.
        records: of the session.
        coverage: of the session.
        omitted: lines that say what the session left out.
    """
    all_records = list(records)
    roots = causes(all_records)
    results = [
        as_schema_2(record, all_records[roots[at]] if at in roots else None)
        for at, record in enumerate(all_records)
    ]
    results.sort(key=lambda result: (result["nodeid"], result["op"] or "", result["check"] or ""))
    return {
        "schema": SCHEMA,
        "environment": dict(environment),
        "results": results,
        "findings": findings_of(all_records),
        "coverage": [namespace.to_dict() for namespace in coverage],
        "omitted": list(omitted),
    }


def render(report: Mapping[str, Any]) -> str:
    """The report as JSON."""
    return json.dumps(report, indent=1) + "\n"
