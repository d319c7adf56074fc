"""The summary in the terminal: a table of outcomes, the distinct findings, and what was not checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ..core.tables import aligned
from ..core.wording import counted, listed_briefly
from ..plan.omissions import OmittedVariants
from ..run.record import ResultRecord
from .known import known_lines
from .notes import note_lines
from .variants import variant_lines

_BAD = ("failed", "error", "xpassed")
_SHORT = {"passed": "ok", "failed": "failed", "error": "error", "skipped": "skip"}


def summary_lines(
    records: Sequence[ResultRecord], omitted: Iterable[OmittedVariants] = ()
) -> list[str]:
    """The lines under the summary's heading; none where nothing ran.

    Args:
        records: of the session.
        omitted: how many variants each mark leaves out.
    """
    if not records:
        return []
    of_samples = [one for one in records if not one.is_variant]
    lines = _table(of_samples) if of_samples else []
    lines += [*variant_lines(records, omitted), *_findings(records)]
    lines += [*known_lines(records), *note_lines(records), *_unchecked(of_samples)]
    if all(one.outcome == "skipped" for one in records):
        lines += ["", "Every customop item was skipped: nothing was checked."]
    return lines


def _family(record: ResultRecord) -> str:
    return (record.check or "not run").partition(".")[0]


def _table(records: Sequence[ResultRecord]) -> list[str]:
    """A row an op, a column a family."""
    families = sorted({_family(one) for one in records})
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for one in records:
        counts[one.op][_family(one)][one.outcome] += 1
    rows = [["op", *families]]
    for op in sorted(counts):
        rows.append([op, *(_cell(counts[op][family]) for family in families)])
    return aligned(rows)


def _cell(counter: Counter[str]) -> str:
    if not counter:
        return "-"
    order = ("failed", "error", "passed", "noted", "skipped", "xfailed", "xpassed")
    return ", ".join(
        f"{counter[outcome]} {_SHORT.get(outcome, outcome)}"
        for outcome in order
        if counter[outcome]
    )


def _findings(records: Iterable[ResultRecord]) -> list[str]:
    """A row a defect: on samples by code and op, on variants by what they change too."""
    groups: dict[tuple[str, str, str], list[ResultRecord]] = defaultdict(list)
    for one in records:
        if one.outcome in _BAD:
            code = one.finding.code if one.finding else one.outcome
            groups[code, one.op, one.place.aspect or ""].append(one)
    if not groups:
        return []
    rows = []
    for (code, op, _), group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        checks = sorted({one.check or "-" for one in group})
        rows.append([f"  {code}", op, _where(group), ", ".join(checks)])
    return ["", "Findings:", *aligned(rows)]


def _where(group: Sequence[ResultRecord]) -> str:
    """`3 cases`, or the names of variants."""
    if group[0].is_variant:
        return listed_briefly(one.place.name for one in group)
    return counted(len({one.case for one in group}), "case")


def _unchecked(records: Iterable[ResultRecord]) -> list[str]:
    """Skips that leave unchecked what the author may believe was checked, and absent devices."""
    groups: Counter[tuple[str, str, str]] = Counter()
    for one in records:
        if one.outcome == "skipped" and one.unjudged:
            groups[one.op, one.check or "not run", one.reason] += 1
    if not groups:
        return []
    lines = ["", "Could not be checked:"]
    for (op, check, reason), count in sorted(groups.items()):
        times = f" ({count} cases)" if count > 1 else ""
        lines.append(f"  {op} {check}{times}: {reason}")
    return lines
