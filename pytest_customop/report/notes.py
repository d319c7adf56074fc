"""The part of the summary that lists notes: findings that are no failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..core.tables import fitted
from ..core.wording import counted
from ..run.record import ResultRecord

_HEADING = 'Notes (variants="strict" in the mark makes them failures):'


def note_lines(records: Iterable[ResultRecord], width: int) -> list[str]:
    """A row a defect: the finding, the op, the inputs that show it, and why it is a note."""
    groups: dict[tuple[str, str, str, str], list[ResultRecord]] = defaultdict(list)
    for one in records:
        if one.outcome == "noted":
            code = one.finding.code if one.finding else "-"
            groups[code, one.op, one.why_noted, one.place.aspect or ""].append(one)
    if not groups:
        return []
    rows = [
        [f"  {code}", op, _inputs(group), why]
        for (code, op, why, _), group in sorted(groups.items())
    ]
    return ["", _HEADING, *fitted(rows, width)]


def _inputs(group: Sequence[ResultRecord]) -> str:
    """The shortest description of a variant, and how many more there are; of samples, their number."""
    if not group[0].is_variant:
        return counted(len({one.case for one in group}), "case")
    shortest = min((one.variant_description for one in group), key=len)
    more = len({one.place.name for one in group}) - 1
    return f"{shortest} (+{counted(more, 'variant')})" if more else shortest
