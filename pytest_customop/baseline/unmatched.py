"""Entries of a baseline that match no case of a session that collected and ran everything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from .entry import Cell, Entry, values_of

# A session may lack some of their values.
_OF_THE_SESSION = ("device", "dtype", "kind")


def unmatched(
    entries: Iterable[Entry],
    ops: Set[str],
    cells: Mapping[tuple[str, str], Collection[Cell]],
    *,
    all_checks: bool,
) -> list[Entry]:
    """The entries that no case matches, as far as that can be known.

    An entry for a device, a dtype or variants that the session did not have may match in another session.

    Args:
        entries: the entries of the file.
        ops: the ops that have a test.
        cells: by op and check, the cells of the cases.
        all_checks: whether the session was not limited to some checks.
    """
    return [entry for entry in entries if _matches_none(entry, ops, cells, all_checks)]


def _matches_none(
    entry: Entry,
    ops: Set[str],
    cells: Mapping[tuple[str, str], Collection[Cell]],
    all_checks: bool,
) -> bool:
    op, check, _ = entry.key
    if op not in ops:
        return True
    of_check = cells.get((op, check), ())
    of_op = [cell for key, some in cells.items() if key[0] == op for cell in some]
    here = values_of(of_check or of_op)
    lists = entry.lists
    if not all((values := lists[name]) is None or values & here[name] for name in _OF_THE_SESSION):
        return False
    if not of_check:
        return all_checks
    return not any(entry.covers(cell, None) for cell in of_check)
