"""Merge the reports of shards, or of several machines, into one."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.wording import counted
from .environments import combined, differences
from .identity import Result, numbered
from .merge_coverage import merged_coverage
from .schema import SCHEMA

# From the best outcome to the worst: a case that was skipped somewhere and passed elsewhere was checked.
_WORSE = ("skipped", "passed", "noted", "xfailed", "xpassed", "failed", "error")
_LISTED = 20  # results that differ

Report = Mapping[str, Any]


@dataclass
class Merged:
    """Several reports as one.

    Args:
        report: schema 2.
        messages: lines about the merge for the reader.
    """

    report: dict[str, Any]
    messages: list[str] = field(default_factory=list)


def merge(reports: Sequence[tuple[str, Report]], command: Sequence[str]) -> Merged:
    """One report from several. If several have a result, the worst is kept.

    Args:
        reports: each with the name of its file.
        command: the command that merges them.
    """
    messages = differences([(name, report["environment"]) for name, report in reports])
    results, of_several = _merged_results(reports)
    results, elsewhere = _without_absent_devices(results)
    messages += of_several
    if elsewhere:
        word = "skip" if elsewhere == 1 else "skips"
        messages.append(
            f"{elsewhere} {word} left out: the device was available for another report."
        )
    findings = {
        code: finding for _, report in reports for code, finding in report["findings"].items()
    }
    merged = {
        "schema": SCHEMA,
        "environment": combined(
            [(name, report["environment"]) for name, report in reports], command
        ),
        "results": results,
        "findings": {code: findings[code] for code in sorted(findings)},
        "coverage": merged_coverage([report["coverage"] for _, report in reports]),
        "omitted": [f"{name}: {line}" for name, report in reports for line in report["omitted"]],
        "merged": [
            earlier
            for name, report in reports
            for earlier in report.get("merged")
            or [{"report": name, "environment": report["environment"]}]
        ],
    }
    return Merged(copy.deepcopy(merged), messages)


def _merged_results(reports: Sequence[tuple[str, Report]]) -> tuple[list[Result], list[str]]:
    """The results of all reports, each once, and the messages on those that several have."""
    by_key: dict[tuple[Hashable, ...], list[tuple[str, Result]]] = defaultdict(list)
    for name, report in reports:
        for key, result in numbered(report["results"]):
            by_key[key].append((name, result))
    kept, lines, several = [], [], 0
    for copies in by_key.values():
        worst_of, worst = max(copies, key=lambda item: _WORSE.index(item[1]["outcome"]))
        kept.append(worst)
        several += len(copies) > 1
        if len({_verdict(result) for _, result in copies}) > 1:
            verdicts = ", ".join(f"{_verdict(result)} in {name}" for name, result in copies)
            lines.append(f"  {_named(worst)}: {verdicts}; kept the result of {worst_of}")
    kept.sort(key=lambda result: (result["nodeid"], result["op"], result["check"] or ""))
    if not several:
        return kept, []
    verb = "is" if several == 1 else "are"
    differ = f"; {len(lines)} of them differ{'s' * (len(lines) == 1)}" if lines else ""
    first = f"{counted(several, 'result')} {verb} in more than one report{differ}."
    more = len(lines) - _LISTED
    return kept, [first, *lines[:_LISTED], *([f"  and {more} more"] if more > 0 else [])]


def _verdict(result: Result) -> str:
    finding = result["finding"]
    return f"{result['outcome']} ({finding})" if finding else str(result["outcome"])


def _named(result: Result) -> str:
    """A node id, followed by the variant, which is not in it."""
    variant = f" ({result['variant']})" if result["variant"] else ""
    return f"{result['nodeid']}{variant}"


def _without_absent_devices(results: Sequence[Result]) -> tuple[list[Result], int]:
    """The results without the skips for devices on which another report has results of the same test."""
    checked = {_test_on_device(result) for result in results if result["sample"] is not None}
    kept = [
        result
        for result in results
        if not _is_absent_device(result) or _test_on_device(result) not in checked
    ]
    return kept, len(results) - len(kept)


def _is_absent_device(result: Result) -> bool:
    nothing = result["check"] is None and result["sample"] is None
    return nothing and result["outcome"] == "skipped" and result["device"] is not None


def _test_on_device(result: Result) -> tuple[str, str, str]:
    device = str(result["device"]).partition(":")[0]
    return result["nodeid"].partition("[")[0], result["op"], device
