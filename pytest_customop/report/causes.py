"""Find the root cause of each finding, so that each defect is reported in full once.

Findings of one case belong together if they have the same code, or if one may follow from the other. The
same holds for findings of a variant and of its sample. If a kernel reads outside of its memory, crashes,
reads past the end and values that differ from call to call are one defect on variants of the same aspect.
On variants of dtypes, they are also one defect with a kernel that reads memory as another dtype.

Findings of several cases are one defect if they have the same code and their messages differ only in sizes,
dtypes and values. On variants, the same code and the same changed aspect of the samples are enough.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.wording import counted, listed_briefly
from ..declare.variant import JOINT, LARGE
from ..run.record import FindingRecord, ResultRecord

# Parts that may differ in the messages of one defect: sizes and strides, floats, dtypes.
_VARYING = (
    (re.compile(r"[(\[][-\d, ]*[)\]]"), "()"),
    (re.compile(r"-?\d+\.\d*(e[-+]?\d+)?"), "0."),
    (re.compile(r"\b(b?float|complex|u?int)\d+(_\w+)?\b"), "dtype"),
)


# If at least this many ops share a defect, it is reported in full only for the first one. Crashes and
# hangs are excluded, because each op has its own stack.
_MANY_OPS = 3
_ALWAYS_IN_FULL = ("crash", "hang")

_SIZES = "shape"  # the aspect of variants with other sizes

# Findings on a kernel that reads or writes outside of its memory, the most certain first.
_OUTSIDE = ("crash", "out-of-bounds-read", "out-of-bounds-write")
# Findings on such a kernel if the process survives: equal calls differ.
_OF_MEMORY = (
    "grad-mode-mismatch",
    "outputs-not-repeatable",
    "precision-mismatch",
    "result-depends-on-earlier-calls",
    "uninitialized-output",
)


def causes(records: Iterable[ResultRecord]) -> dict[int, int]:
    """The position of the root cause, for each record that follows from another or repeats it.

    A record that is not in the result is a root cause, or has no finding.
    """
    all_records = list(records)
    failed = [
        (at, record.finding) for at, record in enumerate(all_records) if record.outcome == "failed"
    ]
    findings = {at: finding for at, finding in failed if finding is not None}
    by_case: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    first: dict[tuple[Any, ...], int] = {}
    result: dict[int, int] = {}
    for at in sorted(findings, key=lambda at: _order(all_records[at], findings[at])):
        record, finding = all_records[at], findings[at]
        known = (position for case in _cases(record) for position in by_case[case])
        root = next(
            (position for position in known if _explains(findings[position], record, finding)), None
        )
        if root is None and record.is_variant:
            outside = (first[key] for key in _outside_keys(record, finding) if key in first)
            root = next(outside, None)
        if root is None:
            by_case[_case(record)].append(at)
            earlier = (first[key] for key in _repeated(record, finding) if key in first)
            root = next(earlier, at)
            for key in _own_keys(record, finding):
                first.setdefault(key, at)
        if root != at:
            result[at] = result.get(root, root)
    return result


def with_other_ops(records: Sequence[ResultRecord], roots: Mapping[int, int]) -> dict[int, int]:
    """The root causes, with a single root for a defect of many ops: for text that people read.

    Args:
        records: as for `causes`.
        roots: as from `causes`.
    """
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for at, record in enumerate(records):
        if record.outcome == "failed" and record.finding is not None and at not in roots:
            if record.finding.code in _ALWAYS_IN_FULL:
                continue
            name = re.compile(
                "|".join((re.escape(record.op), re.escape(record.op.replace("::", "_"))))
            )
            message = _general(name.sub("op", record.message))
            groups[record.finding.code, record.place.aspect, message].append(at)
    moved: dict[int, int] = {}
    for first, *others in groups.values():
        if len({records[at].op for at in (first, *others)}) >= _MANY_OPS:
            moved |= dict.fromkeys(others, first)
    return {**moved, **{at: moved.get(root, root) for at, root in roots.items()}}


def _order(record: ResultRecord, finding: FindingRecord) -> tuple[Any, ...]:
    """The sort key: samples before variants, one change before several, causes before consequences."""
    aspects = len(_aspects(record))
    return record.is_variant, aspects > 1, *finding.rank, record.check or "", record.nodeid


def _explains(earlier: FindingRecord, record: ResultRecord, finding: FindingRecord) -> bool:
    """Whether a finding is the same as an earlier one of its case or sample, or may follow from it.

    A finding that a check makes on a sample by changing its sizes may recur on variants of other sizes.
    """
    if earlier.code.startswith("fake-size-") and _aspect(record) == _SIZES:
        return finding.code in (earlier.code, *earlier.follows) or earlier.code in finding.follows
    return finding.code == earlier.code or earlier.code in finding.follows


def _case(record: ResultRecord) -> tuple[Any, ...]:
    """A key that is equal for findings of one case. A variant is one case, with gradients and without."""
    place = replace(record.place, requires_grad=None) if record.is_variant else record.place
    return record.test, record.op, place


def _cases(record: ResultRecord) -> Iterator[tuple[Any, ...]]:
    """The case of a record and, for a variant, those of its sample."""
    yield _case(record)
    if record.is_variant:
        for requires_grad in (False, True):
            of_sample = replace(
                record.place, variant=None, aspect=None, requires_grad=requires_grad
            )
            yield record.test, record.op, of_sample


def _repeated(record: ResultRecord, finding: FindingRecord) -> list[tuple[Any, ...]]:
    """The keys under which an earlier finding of the same defect may be known.

    A finding on a variant may repeat one of the same code on any sample.
    """
    defect = (record.op, finding.code)
    if record.is_variant:
        aspects = _aspects(record)
        keys = [] if len(aspects) < 2 else [(*defect, "aspect", aspect) for aspect in aspects]
        return [defect, (*defect, "aspect", _aspect(record)), *keys]
    return [(*defect, "message", _general(record.message))]


def _aspect(record: ResultRecord) -> str | None:
    """The aspect that a variant changes. Large sizes count as sizes."""
    return _SIZES if record.place.aspect in LARGE else record.place.aspect


def _aspects(record: ResultRecord) -> list[str]:
    """The aspects that a variant changes: several for a variant of several changes."""
    return (record.place.aspect or "").split(JOINT)


def _outside_keys(record: ResultRecord, finding: FindingRecord) -> Iterator[tuple[Any, ...]]:
    """The keys of reads outside of memory that a finding on a variant may follow from.

    A kernel that reads tensors of a narrower dtype as if they had the sample's dtype reads past their end.
    """
    if finding.code in _OUTSIDE:
        causes = _OUTSIDE[: _OUTSIDE.index(finding.code)]
    else:
        causes = _OUTSIDE if finding.code in _OF_MEMORY else ()
    for code in causes:
        yield record.op, code, "aspect", _aspect(record)
    if causes and record.place.aspect == "dtype":
        yield record.op, "precision-mismatch"


def _own_keys(record: ResultRecord, finding: FindingRecord) -> list[tuple[Any, ...]]:
    """The keys under which later findings of the same defect look for this one."""
    keys = _repeated(record, finding)
    return keys[1:2] if record.is_variant else [*keys, (record.op, finding.code)]


def _general(message: str) -> str:
    """The message without the parts that differ between the cases of one defect."""
    for pattern, to in _VARYING:
        message = pattern.sub(to, message)
    return message


def one_line(record: ResultRecord, root: ResultRecord, root_id: str) -> str:
    """The text of a finding that is reported in full elsewhere.

    Args:
        record: the finding that follows from another one or repeats it.
        root: the other finding.
        root_id: its node id.
    """
    assert record.finding is not None
    assert root.finding is not None
    same = record.finding.code == root.finding.code
    why = "the same finding is" if same else f"it may follow from {root.finding.code},"
    return f"{record.finding.code}: {record.message}\n{why} reported in full at {root_id}"


def also_line(root: ResultRecord, others: Sequence[ResultRecord]) -> str:
    """The last line of a root cause: `also   compile.static (compile-stride-assert), 2 more cases`.

    Args:
        others: the records that follow from the root or repeat it.
    """
    ops = dict.fromkeys(record.op for record in others if record.op != root.op)
    others = [record for record in others if record.op == root.op]
    checks = sorted(_name(record, root) for record in others if _case(record) == _case(root))
    others = [record for record in others if _case(record) != _case(root)]
    cases = len({_case(record) for record in others if not record.is_variant})
    steps = dict.fromkeys(_step(record, root) for record in others if record.is_variant)
    more = [counted(cases, "more case")] * bool(cases)
    if steps:
        more.append(f"the variant{'s' * (len(steps) > 1)} {', '.join(steps)}")
    more += [f"the op{'s' * (len(ops) > 1)} {listed_briefly(ops)}"] if ops else []
    return f"also   {', '.join([*dict.fromkeys(checks), *more])}"


def _step(record: ResultRecord, root: ResultRecord) -> str:
    """The step of a variant, with its sample if that is not the root's."""
    same = record.place.sample == root.place.sample
    return str(record.place.variant) if same else record.place.name


def _name(record: ResultRecord, root: ResultRecord) -> str:
    assert record.finding is not None
    assert root.finding is not None
    if record.finding.code == root.finding.code:
        return str(record.check)
    return f"{record.check} ({record.finding.code})"
