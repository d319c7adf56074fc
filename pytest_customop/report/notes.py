"""The part of the summary that lists notes: findings that are not failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..core.tables import fitted
from ..core.wording import counted
from ..run.record import ResultRecord

_HEADING = 'Notes (variants="strict" in the mark makes them failures):'


def note_lines(records: Iterable[ResultRecord], width: int) -> list[str]:
    """One row per defect: the finding, the op, the inputs that show it, and why it is a note."""
    groups: dict[tuple[str, str, str, str], list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.outcome == "noted":
            code = record.finding.code if record.finding else "-"
            groups[code, record.op, record.why_noted, record.place.aspect or ""].append(record)
    if not groups:
        return []
    rows = [
        [f"  {code}", op, _inputs(group), why]
        for (code, op, why, _), group in sorted(groups.items())
    ]
    return ["", _HEADING, *fitted(rows, width)]


def _inputs(group: Sequence[ResultRecord]) -> str:
    """The shortest description of a variant, and how many more there are; for samples, their number."""
    if not group[0].is_variant:
        return counted(len({record.case for record in group}), "case")
    shortest = min((record.variant_description for record in group), key=len)
    more = len({record.place.name for record in group}) - 1
    return f"{shortest} (+{counted(more, 'variant')})" if more else shortest
