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
    """One line per op; none if no variant was planned."""
    by_op: dict[str, list[ResultRecord]] = defaultdict(list)
    for record in records:
        if record.is_variant and not record.is_generated:
            by_op[record.op].append(record)
    left: Counter[str] = Counter()
    for omission in omitted:
        left[omission.op] += omission.left
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
        checks = len({record.check for record in of_op})
        count = sum(record.generated for record in of_op)
        lines.append(f"  {op}: {count} that it accepts, by {counted(checks, 'check')}")
    return ["", "Generated inputs:", *lines] if lines else []


def _counts(records: Sequence[ResultRecord], left: int) -> str:
    """`14 tried, 3 of them rejected by the op (...); 12 left out`. The table has their outcomes."""
    variants = {_variant(record) for record in records}
    rejected = {_variant(record) for record in records if record.skip_code == REJECTED}
    lenient = {_variant(record) for record in records if record.accepted_by_fake}
    not_run = {_variant(record): record.without_child for record in records if record.without_child}
    parts = [f"{len(variants - not_run.keys())} tried"]
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
    """The identity of a variant. With gradients and without, it is the same variant."""
    return record.test, replace(record.place, requires_grad=None)
