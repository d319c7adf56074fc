"""Update the entries of a baseline after a session: keep, narrow, widen, remove and add entries.

Only cases that ran count. An entry covers every combination of its lists. So a value leaves a list only if
cases with it were judged, none of them fails, and all other covered cases with it could be judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .entry import (
    DIMENSIONS,
    VARIANT,
    Cell,
    Entry,
    Key,
    Value,
    Values,
    few,
    fold,
    new_entry,
    values_of,
)
from .ran import OfCheck

_Case = tuple[Cell, "str | None"]


@dataclass(frozen=True)
class Change:
    """The change of one entry.

    Args:
        old: the entry in the file.
        new: the entry afterwards; None: it is removed. The same object if nothing changes.
        without: by dimension, the values that the entry loses, even if it had no list of them.
        steps: the steps of variants that it loses.
        has_other: whether cases of the entry have another finding now.
    """

    old: Entry
    new: Entry | None
    without: Mapping[str, frozenset[Value]] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()
    has_other: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether cases of the entry no longer fail."""
        return self.new is None or bool(self.without or self.steps)


@dataclass(frozen=True)
class Merged:
    """The changes of all entries.

    Args:
        changes: one per entry, in the order of the file.
        added: new entries.
    """

    changes: tuple[Change, ...]
    added: tuple[Entry, ...]

    @property
    def entries(self) -> list[Entry]:
        """The entries of the file afterwards, without the added ones."""
        return [change.new for change in self.changes if change.new is not None]


def merge(
    entries: Sequence[Entry],
    ran: Mapping[tuple[str, str], OfCheck],
    *,
    records: bool,
    complete: bool = False,
) -> Merged:
    """The changes of the entries after a session.

    Args:
        entries: the entries of the file.
        ran: the results of the session, by op and check.
        records: whether failures that no entry covers are recorded.
        complete: whether it collected every test. Then layouts and samples without a case no longer exist.
    """
    new = _uncovered(entries, ran) if records else {}
    changes = []
    for entry in entries:
        of_check = ran.get((entry.key.op, entry.key.check), OfCheck())
        change = _narrowed(entry, of_check, complete)
        if _covered(entry, of_check.failing_otherwise(entry.key.finding)):
            change = replace(change, has_other=True)
        more = new.pop(entry.key, None)
        if more is not None:
            change = _widened(change, more, of_check)
        changes.append(change)
    added = [
        new_entry(key, _cells(cases), _steps(cases), ran[key.op, key.check].cells)
        for key, cases in sorted(new.items())
    ]
    return Merged(tuple(changes), tuple(added))


def _uncovered(
    entries: Sequence[Entry], ran: Mapping[tuple[str, str], OfCheck]
) -> dict[Key, set[_Case]]:
    """By key, the failing cases that no entry covers."""
    by_key: dict[Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_key[entry.key].append(entry)
    uncovered = {}
    for (op, check), of_check in ran.items():
        for finding, cases in of_check.failing.items():
            key = Key(op, check, finding)
            left = {case for case in cases if not any(entry.covers(*case) for entry in by_key[key])}
            if left:
                uncovered[key] = left
    return uncovered


def _narrowed(entry: Entry, of_check: OfCheck, complete: bool) -> Change:
    """The entry without what no longer fails."""
    finding = entry.key.finding
    failing = _covered(entry, of_check.failing_with(finding))
    clean = _covered(entry, of_check.judged_without(finding))
    kept = _cells(failing) | {cell for cell in of_check.unfinished if entry.covers(cell, None)}
    gone = _cells(clean) - kept
    if not _cells(clean):
        return Change(entry, entry)
    elsewhere = _elsewhere(entry, of_check, complete)
    without = {}
    for name in DIMENSIONS:
        lost = values_of(gone)[name] - values_of(kept)[name]
        if lost and not any(values for dimension, values in elsewhere.items() if dimension != name):
            without[name] = lost
    steps = _lost_steps(entry, failing, clean, of_check, elsewhere)
    if not kept and not any(elsewhere.values()):
        return Change(entry, None)
    all_values = values_of(of_check.cells)
    lists = {
        name: _less(entry.lists[name], without[name], all_values[name])
        if name in without
        else values
        for name, values in entry.lists.items()
    }
    lost_steps = steps if VARIANT in (lists["kind"] or (VARIANT,)) else frozenset()
    if not without and not lost_steps:
        return Change(entry, entry)
    left = None if entry.steps is None else entry.steps - lost_steps
    return Change(entry, replace(entry, lists=lists, steps=left or None), without, lost_steps)


def _covered(entry: Entry, cases: Iterable[_Case]) -> set[_Case]:
    return {case for case in cases if entry.covers(*case)}


def _elsewhere(entry: Entry, of_check: OfCheck, complete: bool) -> dict[str, frozenset[Value]]:
    """By dimension, the listed values that only other sessions can judge.

    Steps of variants count as a dimension here, because they depend on the amount of variants.
    """
    elsewhere: dict[str, frozenset[Value]] = {}
    here = values_of(of_check.cells)
    for name in DIMENSIONS:
        gone = complete and name in ("requires_grad", "layout", "sample")
        elsewhere[name] = frozenset() if gone else (entry.lists[name] or frozenset()) - here[name]
    judged = of_check.failing_with(entry.key.finding) | of_check.judged_without(entry.key.finding)
    elsewhere["steps"] = frozenset((entry.steps or frozenset()) - _steps(judged))
    return elsewhere


def _lost_steps(
    entry: Entry,
    failing: set[_Case],
    clean: set[_Case],
    of_check: OfCheck,
    elsewhere: Mapping[str, frozenset[Value]],
) -> frozenset[str]:
    """The listed steps that no longer fail."""
    open_cells = any(
        cell.kind == VARIANT and entry.covers(cell, None) for cell in of_check.unfinished
    )
    others = any(values for name, values in elsewhere.items() if name != "steps")
    if entry.steps is None or others or open_cells:
        return frozenset()
    return entry.steps & (_steps(clean) - _steps(failing))


def _less(values: Values, lost: frozenset[Value], all_values: frozenset[Value]) -> frozenset[Value]:
    return (all_values if values is None else values) - lost


def _widened(change: Change, cases: set[_Case], of_check: OfCheck) -> Change:
    """The change with an entry that also covers these failing cases, which no entry covers."""
    cells, all_values = _cells(cases), values_of(of_check.cells)
    if change.new is None:
        entry = new_entry(change.old.key, cells, _steps(cases), of_check.cells)
        return Change(change.old, replace(entry, comment=change.old.comment))
    lists: dict[str, Values] = {}
    for name, values in change.new.lists.items():
        more = values_of(cells)[name]
        if values is None or more <= values:
            lists[name] = values
        else:
            lists[name] = fold(name, values | more, all_values[name])
    known = change.new.steps if lists["kind"] == frozenset({VARIANT}) else None
    steps = None if known is None else few(known | _steps(cases))
    return replace(change, new=replace(change.new, lists=lists, steps=steps))


def _cells(cases: Iterable[_Case]) -> set[Cell]:
    return {cell for cell, _ in cases}


def _steps(cases: Iterable[_Case]) -> set[str]:
    return {step for _, step in cases if step is not None}
