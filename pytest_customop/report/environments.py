"""The differences between the environments of several reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ALWAYS_DIFFER = ("command", "date")

# The name of a report, and its environment.
Named = tuple[str, Mapping[str, Any]]


def differences(reports: Sequence[Named]) -> list[str]:
    """A line for each setting or version that is not the same in all reports."""
    lines = []
    for name in _names(reports):
        values = {_text(environment.get(name)): "" for _, environment in reports}
        if len(values) > 1 and name not in _ALWAYS_DIFFER:
            texts = [
                f"{_text(environment.get(name))} ({report})" for report, environment in reports
            ]
            lines.append(f"{name} differs: {', '.join(dict.fromkeys(texts))}")
    return lines


def combined(reports: Sequence[Named], command: Sequence[str]) -> dict[str, Any]:
    """One environment for results of several reports.

    Values that differ become one text. Names of devices are combined, and the date is the latest.

    Args:
        command: the command that combines them.
    """
    merged: dict[str, Any] = {}
    for name in _names(reports):
        values = [environment.get(name) for _, environment in reports]
        texts = list(dict.fromkeys(_text(value) for value in values if value is not None))
        if name == "devices":
            merged[name] = list(
                dict.fromkeys(device for devices in values for device in devices or ())
            )
        elif name == "date":
            merged[name] = max((value for value in values if value), default=None)
        elif all(value == values[0] for value in values):
            merged[name] = values[0]
        else:
            merged[name] = ", ".join(texts)
    return {**merged, "command": list(command)}


def _names(reports: Sequence[Named]) -> list[str]:
    return list(dict.fromkeys(name for _, environment in reports for name in environment))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)
