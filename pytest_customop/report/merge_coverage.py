"""Merge the coverage of a namespace from several reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Coverage = Mapping[str, Any]


def merged_coverage(reports: Sequence[Sequence[Coverage]]) -> list[dict[str, Any]]:
    """The coverage by namespace: something is missing if no report has reached it.

    Args:
        reports: the coverage in each report.
    """
    by_namespace: dict[str, list[Coverage]] = defaultdict(list)
    for report in reports:
        for coverage in report:
            by_namespace[coverage["namespace"]].append(coverage)
    return [_merged(by_namespace[name]) for name in sorted(by_namespace)]


def _merged(coverages: Sequence[Coverage]) -> dict[str, Any]:
    unjudged = next(
        (coverage["not_judged"] for coverage in coverages if coverage["not_judged"] is not None),
        None,
    )
    merged = {
        "namespace": coverages[0]["namespace"],
        "ops": max(coverage["ops"] for coverage in coverages),
        "required": any(coverage["required"] for coverage in coverages),
        "not_judged": unjudged,
        "without_case": [],
        "without_overload": [],
        "without_gradients": [],
        "without_device": {},
        "absent_devices": _in_all(coverages, "absent_devices"),
        "deselected": _in_all(coverages, "deselected"),
        "left_out_nothing": _in_all(coverages, "left_out_nothing"),
        "missing": False,
    }
    if unjudged is not None:
        return merged
    merged["without_case"] = _in_all(coverages, "without_case")
    for name in ("without_overload", "without_gradients"):
        missing = {op for coverage in coverages for op in coverage[name]}
        merged[name] = sorted(
            op
            for op in missing
            if all(op in coverage[name] or _has_no_case(op, coverage) for coverage in coverages)
        )
    devices = {device for coverage in coverages for device in coverage["without_device"]}
    for device in sorted(devices):
        missing = {
            op for coverage in coverages for op in coverage["without_device"].get(device, ())
        }
        left = sorted(
            op
            for op in missing
            if all(
                op in coverage["without_device"].get(device, ()) or _has_no_case(op, coverage)
                for coverage in coverages
            )
        )
        if left:
            merged["without_device"][device] = left
    reachable = set(merged["without_device"]) - set(merged["absent_devices"])
    lists = ("without_case", "without_overload", "without_gradients")
    merged["missing"] = bool(reachable or any(merged[name] for name in lists))
    return merged


def _has_no_case(overload: str, coverage: Coverage) -> bool:
    op = overload.partition(".")[0]
    missing = (*coverage["without_overload"], *coverage["without_case"], *coverage["deselected"])
    return overload in missing or op in missing


def _in_all(coverages: Sequence[Coverage], name: str) -> list[str]:
    """The names that every report has."""
    return [
        value
        for value in coverages[0][name]
        if all(value in coverage[name] for coverage in coverages)
    ]
