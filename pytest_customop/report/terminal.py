"""The summary in the terminal: a table of outcomes, the distinct findings, and what was not checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ..core.tables import fitted
from ..core.wording import counted, listed_briefly
from ..declare.variant import JOINT
from ..plan.omissions import OmittedVariants
from ..run.record import BAD, ResultRecord
from .known import known_lines
from .notes import note_lines
from .outcome_table import outcome_table
from .variants import generated_lines, variant_lines


def summary_lines(
    records: Sequence[ResultRecord],
    omitted: Iterable[OmittedVariants] = (),
    width: int = 80,
    *,
    brief: bool = False,
) -> list[str]:
    """The lines under the summary's heading; none if nothing ran.

    Args:
        records: of the session.
        omitted: how many variants each mark leaves out.
        width: the width for tables. Other lines may be longer.
        brief: whether to return only the table and the findings.
    """
    if not records:
        return []
    of_samples = [record for record in records if not record.is_variant]
    lines = outcome_table(records, width)
    lines += [] if brief else [*variant_lines(records, omitted), *generated_lines(records)]
    lines += _findings(records, width)
    if not brief:
        lines += [
            *known_lines(records, width),
            *note_lines(records, width),
            *_unchecked(of_samples),
        ]
    if all(record.outcome == "skipped" for record in records):
        lines += ["", "Every customop item was skipped: nothing was checked."]
    return lines


def _findings(records: Iterable[ResultRecord], width: int) -> list[str]:
    """One row per defect: by code and, on variants, by the changed aspect. Several ops are listed below."""
    groups: dict[tuple[str, str, str], list[ResultRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: JOINT in (record.place.aspect or "")):
        if record.outcome in BAD:
            code, op = (record.finding.code, "") if record.finding else (record.outcome, record.op)
            aspect = record.place.aspect or ""
            # A finding with several changes joins the row of one of these changes alone.
            alone = (part for part in aspect.split(JOINT) if (code, op, part) in groups)
            groups[code, op, next(alone, aspect)].append(record)
    if not groups:
        return []
    listed = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows, below = [], []
    for (code, *_), group in listed:
        ops = sorted({record.op for record in group})
        checks = sorted({record.check or "-" for record in group})
        where = _where(group) if len(ops) == 1 else _how_many(group)
        rows.append([f"  {code}", _ops(ops), where, ", ".join(checks)])
        below.append([f"    {', '.join(ops)}"] if len(ops) > 1 else [])
    lines = ([row, *names] for row, names in zip(fitted(rows, width), below, strict=True))
    return ["", "Findings:", *(line for block in lines for line in block)]


def _ops(ops: Sequence[str]) -> str:
    return ops[0] if len(ops) == 1 else counted(len(ops), "op")


def _how_many(group: Sequence[ResultRecord]) -> str:
    noun = "variant" if group[0].is_variant else "case"
    return counted(len({record.case for record in group}), noun)


def _where(group: Sequence[ResultRecord]) -> str:
    """`3 cases`, or the names of variants."""
    if group[0].is_variant:
        return listed_briefly(record.place.name for record in group)
    return _how_many(group)


def _unchecked(records: Iterable[ResultRecord]) -> list[str]:
    """Skips that leave unchecked what the author may believe was checked, and absent devices."""
    groups: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        if record.outcome == "skipped" and record.unjudged:
            groups[record.op, record.check or "not run", record.reason] += 1
    if not groups:
        return []
    lines = ["", "Could not be checked:"]
    for (op, check, reason), count in sorted(groups.items()):
        times = f" ({count} cases)" if count > 1 else ""
        lines.append(f"  {op} {check}{times}: {reason}")
    return lines
