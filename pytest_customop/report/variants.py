"""What the summary says of the variants of samples, beside what it says of the samples themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..declare.variant import ACCEPTED_BY_FAKE, APART, REJECTED, SEPARATOR
from ..plan.omissions import OmittedVariants

Record = Mapping[str, Any]


def is_variant(record: Record) -> bool:
    """Whether a record is of a variant and not of an author's own sample."""
    return SEPARATOR in (record["sample"] or "")


def variant_lines(records: Iterable[Record], counts: Iterable[OmittedVariants]) -> list[str]:
    """One line an op, and one for each of its findings; none where no variant was planned."""
    by_op: dict[str, list[Record]] = defaultdict(list)
    for record in filter(is_variant, records):
        by_op[record["op"]].append(record)
    left: Counter[str] = Counter()
    for count in counts:
        left[count.op] += count.left
    lines = []
    for op, own in sorted(by_op.items()):
        lines += [f"  {op}: {_told(own, left[op])}", *_findings(own)]
    return ["", "Variants of the samples:", *lines] if lines else []


def _told(records: Sequence[Record], left: int) -> str:
    """`14 tried, 3 of them refused by the op (...); 96 ok, 2 failed; 12 left out`."""
    every = {_place(record) for record in records}
    refused = {_place(record) for record in records if _says(record, f"{REJECTED}: ")}
    lenient = {_place(record) for record in records if ACCEPTED_BY_FAKE in record["message"]}
    apart = {_place(record) for record in records if APART in record["message"]}
    parts = [f"{len(every - apart)} tried"]
    if refused:
        parts[0] += f", {len(refused)} of them refused by the op"
    if lenient:
        parts[0] += f" (its fake kernel takes {len(lenient)} of these)"
    outcomes = Counter(record["outcome"] for record in records if _place(record) not in refused)
    bad = [
        f"{outcomes[one]} {one}"
        for one in ("failed", "error", "xfailed", "xpassed")
        if outcomes[one]
    ]
    if bad or outcomes["passed"]:
        parts.append(", ".join([*bad, f"{outcomes['passed']} ok"]))
    if apart:
        parts.append(f"{len(apart)} not run, they could read out of bounds ({APART})")
    if left:
        parts.append(f"{left} left out (--customop-variants=full)")
    return "; ".join(parts)


def _place(record: Record) -> tuple[Any, ...]:
    names = ("device", "dtype", "layout", "sample")
    return (record["nodeid"].partition("[")[0], *(record[name] for name in names))


def _says(record: Record, start: str) -> bool:
    return str(record["message"]).startswith(start)


def _findings(records: Iterable[Record]) -> list[str]:
    steps: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for record in records:
        if record["outcome"] in ("failed", "error", "xpassed"):
            code = record["finding"] or record["outcome"]
            steps[code, record["check"] or "-"][record["sample"]] = None
    return [
        f"    {code}  {check}: {', '.join(samples)}"
        for (code, check), samples in sorted(steps.items())
    ]
