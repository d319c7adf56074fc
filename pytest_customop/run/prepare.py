"""Announce to checks the cases that they are going to run on, so that cases can share work."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..cases.case import Case
from ..checks import Check
from ..plan.items import PlannedItem


def prepare_checks(planned: Iterable[tuple[PlannedItem, Hashable]], workers: int = 1) -> None:
    """Call `Check.prepare` with the cases of marks that may share work.

    Variants, generated inputs, and cases with known failures, which could end the process, are left out.

    Args:
        planned: the items that run in this process, each with a key. Items with equal keys may share work.
        workers: the number of processes that divide the items. With more than one, each process runs
            consecutive items: marks share no work, and the cases of a mark are passed in as many parts.
    """
    marks_by_check: dict[tuple[Hashable, Check], dict[int, dict[Case, None]]] = {}
    for item, common in planned:
        check, case = item.check, item.case
        if check is None or case is None or check.prepare is None:
            continue
        if item.skip is None and not item.variants and not item.known and item.fuzz is None:
            marks = marks_by_check.setdefault((common, check), {})
            marks.setdefault(id(case.op), {})[case] = None
    for (_, check), marks in marks_by_check.items():
        assert check.prepare is not None
        # Groups do not depend on the order of the items: compiled code of an earlier run is found on disk.
        groups = [sorted(cases, key=_place) for cases in marks.values()]
        groups.sort(key=lambda cases: [_place(case) for case in cases])
        if workers == 1:
            check.prepare(groups)
            continue
        for group in groups:
            size = -(-len(group) // workers)
            for start in range(0, len(group), size):
                check.prepare([group[start : start + size]])


def _place(case: Case) -> tuple[str, str]:
    return case.op.name, case.id
