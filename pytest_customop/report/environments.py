"""What differs between the environments of several reports."""

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
            each = [f"{_text(environment.get(name))} ({report})" for report, environment in reports]
            lines.append(f"{name} differs: {', '.join(dict.fromkeys(each))}")
    return lines


def combined(reports: Sequence[Named], command: Sequence[str]) -> dict[str, Any]:
    """One environment for results of several reports.

    What differs is a text of all values. Names of devices are gathered, the date is the latest.

    Args:
        command: that combines them.
    """
    found: dict[str, Any] = {}
    for name in _names(reports):
        values = [environment.get(name) for _, environment in reports]
        given = list(dict.fromkeys(_text(one) for one in values if one is not None))
        if name == "devices":
            found[name] = list(dict.fromkeys(one for each in values for one in each or ()))
        elif name == "date":
            found[name] = max((one for one in values if one), default=None)
        elif all(one == values[0] for one in values):
            found[name] = values[0]
        else:
            found[name] = ", ".join(given)
    return {**found, "command": list(command)}


def _names(reports: Sequence[Named]) -> list[str]:
    return list(dict.fromkeys(name for _, environment in reports for name in environment))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)
