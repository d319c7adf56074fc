"""The part of the summary that lists known failures, with their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..core.tables import fitted
from ..core.wording import counted
from ..run.record import ResultRecord


def known_lines(records: Iterable[ResultRecord], width: int) -> list[str]:
    """One row for each op, finding and reason."""
    groups: dict[tuple[str, str, str], list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.outcome == "xfailed" and record.known:
            code = record.finding.code if record.finding else record.message
            groups[code, record.op, record.known].append(record)
    if not groups:
        return []
    rows = [
        [f"  {code}", op, counted(len({record.case for record in group}), "case"), reason]
        for (code, op, reason), group in sorted(groups.items())
    ]
    return ["", "Known failures:", *fitted(rows, width)]
