"""The part of the summary that is about the baseline file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..baseline.entry import Entry, Value
from ..baseline.merge import Change, Merged
from ..core.tables import aligned

_NOUNS = {
    "device": "device",
    "dtype": "dtype",
    "layout": "layout",
    "sample": "sample",
}
_MANY = 20  # rows


def stale_lines(name: str, changes: Iterable[Change], unmatched: Sequence[Entry]) -> list[str]:
    """The lines on out-of-date entries: those that no longer fail, and those that match nothing.

    Args:
        name: of the file.
        changes: the changes that an update would make.
        unmatched: entries that match no case of the session.
    """
    rows = [
        [*change.old.key, f"{_what(change)}{_where(change)}", change.old.comment]
        for change in changes
        if change.is_fixed
    ]
    rows += [[*entry.key, "no test has such a case", entry.comment] for entry in unmatched]
    return (
        ["", f"Out of date in {name} (--customop-update-baseline):", *_rows(rows)] if rows else []
    )


def undecided_lines(name: str, count: int) -> list[str]:
    """The line on entries about calls that a part of the tests cannot judge.

    Args:
        name: of the file.
        count: how many entries did not fail, but may fail in calls of other tests.
    """
    if not count:
        return []
    entries = "1 more entry" if count == 1 else f"{count} more entries"
    return [f"{entries} of {name} did not fail in these tests; run all tests to decide."]


def update_lines(name: str, merged: Merged, unmatched: Sequence[Entry]) -> list[str]:
    """The lines on what an update has done.

    Args:
        name: of the file.
        merged: the update.
        unmatched: as in `stale_lines`.
    """
    removed = [change for change in merged.changes if change.new is None]
    changed = [
        change
        for change in merged.changes
        if change.new is not None and change.new is not change.old
    ]
    kept = len(merged.changes) - len(removed) - len(changed)
    counts = [
        f"{len(some)} {word}"
        for word, some in (("added", merged.added), ("changed", changed), ("removed", removed))
        if some
    ]
    lines = ["", f"Recorded in {name}: {', '.join([*counts, f'{kept} kept'])}"]
    rows = [["added", *entry.key, entry.comment] for entry in merged.added]
    rows += [["changed", *change.old.key, change.old.comment] for change in changed]
    rows += [["removed", *change.old.key, change.old.comment] for change in removed]
    return [*lines, *_rows(rows), *stale_lines(name, (), unmatched)]


def _rows(rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    shown = [[f"  {row[0]}", *(" ".join(cell.split()) for cell in row[1:])] for row in rows]
    more = len(shown) - _MANY
    return [*aligned(shown[:_MANY]), *([f"  and {more} more"] if more > 0 else [])]


def _what(change: Change) -> str:
    return "has another finding now" if change.has_other else "no longer fails"


def _where(change: Change) -> str:
    """The part of the entry that no longer fails; empty if that is all of it."""
    if change.new is None:
        return ""
    parts = _dimensions(change.without)
    if change.steps:
        parts.append(f"variants {', '.join(sorted(change.steps))}")
    return f": {'; '.join(parts)}"


def _dimensions(without: Mapping[str, frozenset[Value]]) -> list[str]:
    parts = []
    for name, values in without.items():
        if name == "requires_grad":
            parts.append("with gradients" if True in values else "without gradients")
        elif name == "kind":
            parts.append(" and ".join(sorted(map(str, values))))
        else:
            noun = f"{_NOUNS[name]}{'s' * (len(values) > 1)}"
            parts.append(f"{noun} {', '.join(sorted(map(str, values)))}")
    return parts
