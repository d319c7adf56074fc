"""Read the JSON reports of this and of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..declare.variant import SEPARATOR
from .schema import SCHEMA, fill_defaults, first_problem

OLDEST = 1


class ReportError(Exception):
    """A file is not a report that can be read; the message is one line, with the file's name."""


def read_report(path: Path) -> dict[str, Any]:
    """The report in a file, as schema 2.

    Raises:
        ReportError: if it cannot be read, or is not a report.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        first = str(error).partition("\n")[0]
        raise ReportError(f"{path} is not a JSON report: {first}") from None
    number = report.get("schema") if isinstance(report, dict) else None
    if isinstance(number, bool) or not isinstance(number, int):
        raise ReportError(f"{path} is not a report of --customop-report: it names no schema")
    if number > SCHEMA:
        known = f"schemas {OLDEST} to {SCHEMA}"
        raise ReportError(
            f"{path} has schema {number}; this version of pytest-customop reads {known}"
        )
    if number < OLDEST:
        raise ReportError(f"{path} has schema {number}, which does not exist")
    if number < SCHEMA:
        report["schema"] = SCHEMA
        _split_variants(report)
    fill_defaults(report)
    problem = first_problem(report)
    if problem is not None:
        raise ReportError(f"{path} does not fit schema {number}: {problem}")
    return dict(report)


def _split_variants(report: dict[str, Any]) -> None:
    """Move the step of a variant out of the sample's id, which contains it in schema 1."""
    results = report.get("results")
    for result in results if isinstance(results, list) else ():
        if (
            isinstance(result, dict)
            and isinstance(result.get("sample"), str)
            and "variant" not in result
        ):
            result["sample"], _, step = result["sample"].partition(SEPARATOR)
            result["variant"] = step or None
