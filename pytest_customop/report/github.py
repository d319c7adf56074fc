"""The parts of a report that GitHub shows: a job's summary, and errors at the lines of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.wording import counted, without_controls
from .view import Group, View, check_of, message_of, state_of

MAX_ANNOTATIONS = 10  # GitHub shows no more per step
_LONGEST = 4000  # characters of a message
_SUMMARY = 1024 * 1024  # bytes that GitHub accepts as a summary


def annotation_lines(report: Mapping[str, Any], root: Path, workspace: Path) -> list[str]:
    """A line for each distinct failure, which GitHub shows at the test that has the mark.

    Args:
        report: as `json_file.as_report` makes it.
        root: pytest's rootdir, which the report's files are relative to.
        workspace: the folder of the checkout, which GitHub's files are relative to.
    """
    defects = View(report).defects
    lines = [_annotation(group, root, workspace) for group in defects[:MAX_ANNOTATIONS]]
    more = len(defects) - MAX_ANNOTATIONS
    if more > 0:
        lines[-1] = f"::error title=pytest-customop::and {counted(more + 1, 'more failure')}"
    return lines


def _annotation(group: Group, root: Path, workspace: Path) -> str:
    first = group.first
    properties = {}
    if first.get("file"):
        path = root / str(first["file"])
        inside = path.relative_to(workspace) if path.is_relative_to(workspace) else first["file"]
        properties["file"] = Path(inside).as_posix()
        if first.get("line"):
            properties["line"] = str(first["line"])
    properties["title"] = f"{group.code}: {first.get('op')}"
    unexpected = state_of(first) == "xpassed"
    text = "passed, although it is expected to fail" if unexpected else message_of(first)
    message = [f"{text or group.code} [{check_of(first)}, {group.cases}]"]
    message += [str(first[key]) for key in ("fix", "repro") if first.get(key)]
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{'warning' if unexpected else 'error'} {listed}::{_data(chr(10).join(message)[:_LONGEST])}"


def _data(text: str) -> str:
    """The text of a workflow command, on one line."""
    text = without_controls(text.replace("\t", " "), " ")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(path: Path, text: str) -> None:
    """Add the report to the summary of the job's step, to which other commands may have written.

    Raises:
        OSError: if it cannot be written, or if both together are larger than GitHub accepts.
    """
    content = f"\n{text}".encode()
    if path.exists() and path.stat().st_size + len(content) > _SUMMARY:
        raise OSError("the summary of the step would be larger than GitHub accepts")
    with path.open("ab", buffering=0) as file:
        file.write(content)
