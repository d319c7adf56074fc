"""The part of the summary that is about variants of the samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..core.wording import counted
from ..declare.variant import REJECTED
from ..plan.omissions import OmittedVariants
from ..plan.place import Place
from ..run.record import ResultRecord


def variant_lines(records: Iterable[ResultRecord], omitted: Iterable[OmittedVariants]) -> list[str]:
    """One line per op; none where no variant was planned."""
    by_op: dict[str, list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.is_variant and not record.is_generated:
            by_op[record.op].append(record)
    left: Counter[str] = Counter()
    for one in omitted:
        left[one.op] += one.left
    lines = []
    for op, of_op in sorted(by_op.items()):
        lines.append(f"  {op}: {_counts(of_op, left[op])}")
    return ["", "Variants of the samples:", *lines] if lines else []


def generated_lines(records: Iterable[ResultRecord]) -> list[str]:
    """One line per op whose checks have generated inputs."""
    by_op: dict[str, list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.is_generated:
            by_op[record.op].append(record)
    lines = []
    for op, of_op in sorted(by_op.items()):
        checks = len({one.check for one in of_op})
        count = sum(one.generated for one in of_op)
        lines.append(f"  {op}: {count} that it accepts, by {counted(checks, 'check')}")
    return ["", "Generated inputs:", *lines] if lines else []


def _counts(records: Sequence[ResultRecord], left: int) -> str:
    """`14 tried, 3 of them rejected by the op (...); 12 left out`. The table has their outcomes."""
    every = {_variant(one) for one in records}
    rejected = {_variant(one) for one in records if one.skip_code == REJECTED}
    lenient = {_variant(one) for one in records if one.accepted_by_fake}
    not_run = {_variant(one): one.without_child for one in records if one.without_child}
    parts = [f"{len(every - not_run.keys())} tried"]
    if rejected:
        parts[0] += f", {len(rejected)} of them rejected by the op"
    if lenient:
        parts[0] += f" (its fake kernel accepts {len(lenient)} of these)"
    if not_run:
        how = "; ".join(dict.fromkeys(not_run.values()))
        parts.append(f"{len(not_run)} not run, they could read out of bounds ({how})")
    if left:
        parts.append(f"{left} left out (--customop-variants=full)")
    return "; ".join(parts)


def _variant(record: ResultRecord) -> tuple[str, Place]:
    """What tells variants apart. With gradients and without, it is one variant."""
    return record.test, replace(record.place, requires_grad=None)
