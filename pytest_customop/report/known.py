"""The part of the summary that lists known failures, with their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..core.tables import fitted
from ..core.wording import counted
from ..run.record import ResultRecord


def known_lines(records: Iterable[ResultRecord], width: int) -> list[str]:
    """A row for each finding of an op that is known for one reason."""
    groups: dict[tuple[str, str, str], list[ResultRecord]] = defaultdict(list)
    for one in records:
        if one.outcome == "xfailed" and one.known:
            code = one.finding.code if one.finding else one.message
            groups[code, one.op, one.known].append(one)
    if not groups:
        return []
    rows = [
        [f"  {code}", op, counted(len({one.case for one in group}), "case"), reason]
        for (code, op, reason), group in sorted(groups.items())
    ]
    return ["", "Known failures:", *fitted(rows, width)]
