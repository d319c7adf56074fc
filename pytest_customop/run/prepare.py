"""Tell checks which cases they are going to run on, so that cases can share work."""

from __future__ import annotations

from collections.abc import Iterable

from ..cases.case import Case
from ..checks import Check
from ..plan.items import PlannedItem


def prepare_checks(planned: Iterable[PlannedItem], workers: int = 1) -> None:
    """Call `Check.prepare` with the cases of each mark.

    Variants, and cases with known failures, which could end the process, are left out.

    Args:
        planned: the items that run in this process.
        workers: among how many processes they are divided. Each one runs items that stand together,
            so the cases are handed over in that many parts.
    """
    found: dict[tuple[int, Check], dict[Case, None]] = {}
    for one in planned:
        check, case = one.check, one.case
        if check is None or case is None or check.prepare is None:
            continue
        if one.skip is None and not one.variants and not one.known:
            found.setdefault((id(case.op), check), {})[case] = None
    for (_, check), cases in found.items():
        every = sorted(cases, key=lambda case: case.id)
        size = -(-len(every) // workers)
        for start in range(0, len(every), size):
            assert check.prepare is not None
            check.prepare(every[start : start + size])
