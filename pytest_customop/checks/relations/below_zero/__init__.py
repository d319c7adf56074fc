"""`relations.below_zero`: numbers below 0 fall into cells, buckets and steps as those above 0 do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.documented import lines_about, sentences
from ....cases.tensors import base_name, is_differentiable
from ....declare.ops import Op
from ....findings import Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import (
    Caller,
    copied_results,
    expression,
    skip_if_incomparable,
)
from ...values.memory.limited_copy import answer_if_taken
from ..compare import in_double_if_taken
from ..other_numbers import replaceable
from ..scripts import call_lines, position
from .across import changed_across_zero

_STEPS = (1, 2, 5)  # that the rule is learned from
_FURTHER = (3, 10)  # steps below 0
_SHARE = 0.9  # of the elements that are one too high
_LARGEST = 2**40  # a step count; further away nothing is exact
# A sentence which says that numbers are rounded to 0.
_TO_ZERO = re.compile(
    r"\btoward(s)? (0|zero)\b|\btruncat\w*|\binteger part\b|\bfractions? (is|are) (dropped|cut|lost)",
    re.I,
)
# What numbers fall into. Elsewhere a fraction may be cut off on purpose.
_CELLS = re.compile(
    r"\b(cell|grid|bucket|bin|tile|voxel|block|slot|pixel|day|hour|week|interval|floor)s?\b", re.I
)
# The text about an argument allows numbers below 0.
_NEGATIVE = re.compile(
    r"\bnegative\b(?<!non-negative)|(?<![\w.)\]])-\s?\d|\bsigned\b|\b(below|either side of) (0|zero)\b"
    r"|\bany (real|finite|number|position|coordinate)s?\b|\bfrom -|\banywhere\b|\b(both|either) signs?\b",
    re.I,
)


class _Broken(NamedTuple):
    """A result that is one too high for numbers below 0, or that changes where 0 is among the numbers.

    Args:
        path: of the numbers.
        step: that moves the result by whole numbers, or leaves it as it is.
        above, below: how many steps are added for numbers above 0, and for those below.
        result: its name.
        text: how it differs.
        stays: whether steps leave it as it is.
    """

    path: str
    step: float
    above: int
    below: int
    result: str
    text: str
    stays: bool = False

    def __str__(self) -> str:
        if self.stays:
            return (
                f"{self.result} stays the same with steps of {self.step:g} added to {self.path}, but not "
                f"if 0 is among the numbers: with {self.below * self.step:g} added {self.text}"
            )
        return (
            f"for numbers above 0, {self.result} follows {self.path} in steps of {self.step:g}; below 0 it "
            f"is one too high: {self.text}"
        )


def check_below_zero(case: Case) -> None:
    """Move numbers by whole steps: above 0, to learn how results follow, and then below 0."""
    skip_if_incomparable(case)
    if not any(_has_integers(leaf) for _, leaf in case.eager.outputs):
        raise skip("nothing-to-check", "no result has integers", unjudged=False)
    reason = "no integers follow whole steps of floating-point numbers above 0"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        shown_on = None
        if not _has_numbers_below_zero(case, broken.path):
            shown_on = case.as_beyond("numbers below 0")
        raise fail(
            "truncated-below-zero",
            f"{case.op.name}: {broken}",
            repro=_script(case, broken),
            case=shown_on,
        )


def _has_integers(leaf: torch.Tensor) -> bool:
    exact = not is_differentiable(leaf.dtype) and leaf.dtype not in (torch.bool, torch.uint8)
    return exact and leaf.numel() > 0


def _has_numbers_below_zero(case: Case, path: str) -> bool:
    """Whether the sample has numbers below 0 there, or the text about the argument allows them."""
    if bool((dict(case.inputs().tensors())[path] < 0).any()):
        return True
    return _NEGATIVE.search(lines_about(case.op, base_name(path))) is not None


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether integers follow steps above 0, and a result that does not follow them below."""
    calls = Caller(in_double_if_taken(case))
    is_learned = False
    for path, tensor in replaceable(calls.case):
        low, high = float(tensor.min()), float(tensor.max())
        for step in _steps(calls.case):
            above = max(1, math.ceil(-low / step) + 1)
            below = -max(0, math.ceil(high / step))
            if max(above, -below) > _LARGEST:
                continue
            rules = _rules(calls, path, step, above)
            if not rules:
                across = changed_across_zero(tensor, step, partial(_integers, calls, path, step))
                if across is not None:
                    return True, _Broken(
                        path, step, above, across.steps, across.result, across.text, True
                    )
                continue
            is_learned = True
            broken = [_wrong(calls, path, step, above, below - more, rules) for more in _FURTHER]
            if None not in broken:
                return True, broken[0]
    return is_learned, None


def _steps(case: Case) -> Iterator[float]:
    """1, and the plain numbers above 0, which may be the size of a cell."""
    found = [1.0]
    for _, value in case.op.bind(case.sample):
        values = value if isinstance(value, (list, tuple)) else [value]
        found += [float(each) for each in values if type(each) in (int, float)]
    yield from dict.fromkeys(step for step in found if 0 < step < math.inf)


def _rules(calls: Caller, path: str, step: float, above: int) -> dict[str, torch.Tensor]:
    """By result of integers: how much each element grows with a step; those without a rule are left out."""
    first = _integers(calls, path, step, above)
    rules = {}
    for name, value in first.items():
        moved = [_integers(calls, path, step, above + more).get(name) for more in _STEPS]
        if any(each is None or each.shape != value.shape for each in moved):
            continue
        later = [each for each in moved if each is not None]
        times = later[0] - value
        follows = all(
            torch.equal(each, value + times * more)
            for each, more in zip(later, _STEPS, strict=True)
        )
        if follows and bool(times.any()):
            rules[name] = times
    return rules


def _wrong(
    calls: Caller, path: str, step: float, above: int, below: int, rules: dict[str, torch.Tensor]
) -> _Broken | None:
    """The first result whose elements are one too high below 0, nearly all that follow the steps."""
    first = _integers(calls, path, step, above)
    found = _integers(calls, path, step, below)
    for name, times in rules.items():
        if name not in found or found[name].shape != times.shape:
            continue
        expected = first[name] + times * (below - above)
        moves = times != 0
        gap = (found[name] - expected)[moves]
        if bool(((gap == 0) | (gap == 1)).all()) and float((gap == 1).double().mean()) >= _SHARE:
            at = int((moves & (found[name] != expected)).flatten().nonzero()[0])
            got, right = (int(each.flatten()[at]) for each in (found[name], expected))
            text = f"element {at} is {got} instead of {right} with {below * step:g} added"
            return _Broken(path, step, above, below, name, text)
    return None


def _integers(calls: Caller, path: str, step: float, count: float) -> dict[str, torch.Tensor]:
    """The results of integers, as int64, with so many steps added; none where the op raises."""
    leaves = copied_results(calls(_moved(calls.case, path, step * count))) or ()
    return {
        name: leaf.long()
        for name, leaf in leaves
        if isinstance(leaf, torch.Tensor) and _has_integers(leaf)
    }


def _moved(case: Case, path: str, number: float) -> Arguments:
    return case.inputs().map_distinct(
        lambda name, tensor: tensor.detach() + number if name == path else tensor
    )


def _script(case: Case, broken: _Broken) -> str:
    place = expression(case, broken.path)
    at = position(case, broken.result)
    return (
        call_lines(broken.result)
        + "\ndef result(steps):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach() + {broken.step!r} * steps\n"
        + f"    return call(args, kwargs)[{at}].long()\n\n\n"
        + f"above = result({broken.above})\n"
        + (
            "expected = above\n"
            if broken.stays
            else f"times = result({broken.above + 1}) - above\n"
            f"expected = above + times * {broken.below - broken.above}\n"
        )
        + f"torch.testing.assert_close(result({broken.below}), expected)\n"
    )


def _numbers_cells(op: Op) -> bool:
    """Whether a docstring speaks of cells or the like, and none says that numbers are rounded to 0."""
    said = [*sentences(op, of_op=True)]
    return any(map(_CELLS.search, said)) and not any(map(_TO_ZERO.search, said))


FINDINGS = {
    "truncated-below-zero": Explanation(
        meaning=(
            "For numbers above 0 an integer result follows them in steps: each step more adds the same. "
            "For numbers below 0 it is one too high, as if they were cut off to 0 and not rounded down. Or "
            "it stays the same with each step, above 0 and below, but not if 0 is among the numbers."
        ),
        why=(
            "`.long()`, `.int()`, `astype(int)` and a cast in C++ cut off the fraction, which is rounding "
            "up below 0: the cells on both sides of 0 become one, and all others are shifted."
        ),
        fix=(
            "Round down before the cast: torch.floor(x / step).long(). If numbers below 0 do not occur, "
            "have the op reject them, or declare that with tensor(low=0) in the sample; if rounding to 0 "
            "is meant, say so in the docstring."
        ),
        before="""
cell = (x / size).long()
""",
        after="""
cell = torch.floor(x / size).long()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.below_zero",
    summary="numbers below 0 fall into cells and buckets as those above 0 do",
    run=check_below_zero,
    gradients=False,
    needs=_numbers_cells,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Casts to integers that cut off instead of rounding down, where a docstring speaks of cells of a "
        "grid, buckets of time, tiles or the like. "
        "A floating-point tensor is moved by whole steps, 1 or a plain number of the sample. If integers "
        "follow the steps above 0, nearly all of them being one too high at two places below 0 is a "
        "finding: results that end at 0 differ by more. So are integers, such as counts, that stay the "
        "same with whole steps above 0 and below, change with parts of a step, and are others if 0 is "
        "among the numbers. It is a note if the sample has no numbers below 0 and no text about the "
        "argument allows them."
    ),
    cannot_see=(
        "Ops that reject numbers below 0, or say that they round to 0; steps that are no plain number, or "
        "differ between columns without a common one."
    ),
    cost="calls",
)
