"""Merge what several reports say of the coverage of a namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Coverage = Mapping[str, Any]


def merged_coverage(reports: Sequence[Sequence[Coverage]]) -> list[dict[str, Any]]:
    """The coverage by namespace: missing is what no report has reached.

    Args:
        reports: the coverage of each.
    """
    by_namespace: dict[str, list[Coverage]] = defaultdict(list)
    for report in reports:
        for one in report:
            by_namespace[one["namespace"]].append(one)
    return [_merged(by_namespace[name]) for name in sorted(by_namespace)]


def _merged(found: Sequence[Coverage]) -> dict[str, Any]:
    unjudged = next((one["not_judged"] for one in found if one["not_judged"] is not None), None)
    merged = {
        "namespace": found[0]["namespace"],
        "ops": max(one["ops"] for one in found),
        "required": any(one["required"] for one in found),
        "not_judged": unjudged,
        "without_case": [],
        "without_overload": [],
        "without_gradients": [],
        "without_device": {},
        "absent_devices": _in_all(found, "absent_devices"),
        "deselected": _in_all(found, "deselected"),
        "left_out_nothing": _in_all(found, "left_out_nothing"),
        "missing": False,
    }
    if unjudged is not None:
        return merged
    merged["without_case"] = _in_all(found, "without_case")
    for name in ("without_overload", "without_gradients"):
        missing = {op for one in found for op in one[name]}
        merged[name] = sorted(
            op for op in missing if all(op in one[name] or _has_no_case(op, one) for one in found)
        )
    devices = {device for one in found for device in one["without_device"]}
    for device in sorted(devices):
        missing = {op for one in found for op in one["without_device"].get(device, ())}
        left = sorted(
            op
            for op in missing
            if all(
                op in one["without_device"].get(device, ()) or _has_no_case(op, one)
                for one in found
            )
        )
        if left:
            merged["without_device"][device] = left
    reachable = set(merged["without_device"]) - set(merged["absent_devices"])
    lists = ("without_case", "without_overload", "without_gradients")
    merged["missing"] = bool(reachable or any(merged[name] for name in lists))
    return merged


def _has_no_case(overload: str, one: Coverage) -> bool:
    op = overload.partition(".")[0]
    missing = (*one["without_overload"], *one["without_case"], *one["deselected"])
    return overload in missing or op in missing


def _in_all(found: Sequence[Coverage], name: str) -> list[str]:
    """The names that every report has."""
    return [one for one in found[0][name] if all(one in other[name] for other in found)]
