"""The summary: one table, the distinct findings, and what was not judged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.tables import aligned
from ..core.wording import counted
from ..plan.omissions import OmittedVariants
from .variants import is_variant, variant_lines

_BAD = ("failed", "error", "xpassed")
_SHORT = {"passed": "ok", "failed": "failed", "error": "error", "skipped": "skip"}
Record = Mapping[str, Any]


def summary_lines(records: Sequence[Record], variants: Iterable[OmittedVariants] = ()) -> list[str]:
    """The lines under the summary's heading; none where nothing ran.

    Args:
        records: of the session.
        variants: how many of each mark are left out.
    """
    if not records:
        return []
    own = [record for record in records if not is_variant(record)]
    lines = [*_table(own), *_findings(own), *_unjudged(own)] if own else []
    lines += variant_lines(records, variants)
    if all(record["outcome"] == "skipped" for record in records):
        lines += ["", "Every customop item was skipped: nothing was checked."]
    return lines


def _family(record: Record) -> str:
    check = record["check"] or "not run"
    return str(check).partition(".")[0]


def _table(records: Sequence[Record]) -> list[str]:
    families = sorted({_family(record) for record in records})
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for record in records:
        counts[record["op"]][_family(record)][record["outcome"]] += 1
    rows = [["op", *families]]
    for op in sorted(counts):
        rows.append([op, *(_cell(counts[op][family]) for family in families)])
    return aligned(rows)


def _cell(counter: Counter[str]) -> str:
    if not counter:
        return "-"
    order = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
    return ", ".join(
        f"{counter[outcome]} {_SHORT.get(outcome, outcome)}"
        for outcome in order
        if counter[outcome]
    )


def _findings(records: Iterable[Record]) -> list[str]:
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record["outcome"] in _BAD:
            groups[record["finding"] or record["outcome"], record["op"]].append(record)
    if not groups:
        return []
    rows = []
    for (code, op), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        checks = sorted({record["check"] or "-" for record in group})
        cases = len({_case(record) for record in group})
        rows.append([f"  {code}", op, counted(cases, "case"), ", ".join(checks)])
    return ["", "Findings:", *aligned(rows)]


def _case(record: Record) -> tuple[Any, ...]:
    """What tells cases apart: the test, and the place in its matrix."""
    place = ("device", "dtype", "requires_grad", "layout", "sample")
    return (record["nodeid"].partition("[")[0], *(record[name] for name in place))


def _unjudged(records: Iterable[Record]) -> list[str]:
    """Skips that leave unjudged what the author may believe was judged, and absent devices."""
    groups: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        if record["outcome"] == "skipped" and record.get("unjudged"):
            check = record["check"] or "not run"
            groups[record["op"], str(check), record["message"]] += 1
    if not groups:
        return []
    lines = ["", "Not judged:"]
    for (op, check, message), count in sorted(groups.items()):
        times = f" ({count} cases)" if count > 1 else ""
        lines.append(f"  {op} {check}{times}: {message}")
    return lines
