"""Tell checks which cases they are going to run on, so that cases can share work."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..cases.case import Case
from ..checks import Check
from ..plan.items import PlannedItem


def prepare_checks(planned: Iterable[tuple[PlannedItem, Hashable]], workers: int = 1) -> None:
    """Call `Check.prepare` with the cases of marks that may share work.

    Variants, generated inputs, and cases with known failures, which could end the process, are left out.

    Args:
        planned: the items that run in this process, each with what items that share work have in
            common.
        workers: among how many processes they are divided. Each one runs items that stand together, so
            no two marks share work then, and the cases of one are handed over in that many parts.
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
        # The same cases go together in whatever order items run: what they compile is found on disk then.
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
