"""`relations.below_zero`: numbers below 0 fall into cells, buckets and steps as those above 0 do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from ....cases.argument_names import names_positions
from ....cases.case import Case
from ....cases.documented import (
    lines_about,
    marks_negative_missing,
    pads_with_negative,
    sentences,
)
from ....cases.tensors import base_name, is_differentiable, is_plain
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
_PART = 0.3  # of a step, which changes what steps leave as it is
_LARGEST = 2**40  # a step count; further away nothing is exact
_CALENDAR = re.compile(r"\b(1970|epochs?|timestamps?|dates?|days?|weekdays?|hours?|years?)\b", re.I)
# A day and a week in seconds; 400 years, after which the Gregorian calendar repeats, in days and seconds.
_OF_CALENDARS = (86_400, 604_800, 146_097, 146_097 * 86_400)
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
_BOTH_SIDES = re.compile(r"\b(both|either) sides? of (0|zero|the origin)\b", re.I)


class _Moves(NamedTuple):
    """The numbers of an argument, moved by steps.

    Args:
        path: of the numbers.
        step: a whole number if the numbers are.
        start: is added before the steps.
    """

    path: str
    step: float
    start: int = 0

    def integers(self, calls: Caller, count: float) -> dict[str, torch.Tensor]:
        """The results of integers, as int64, after so many steps; none where the op raises."""
        number = self.start + self.step * count
        arguments = calls.case.inputs().map_distinct(
            lambda name, tensor: tensor.detach() + number if name == self.path else tensor
        )
        return {
            name: leaf.long()
            for name, leaf in copied_results(calls(arguments)) or ()
            if isinstance(leaf, torch.Tensor) and _has_integers(leaf)
        }


class _Broken(NamedTuple):
    """A result that is one too high for numbers below 0, or that changes where 0 is among the numbers.

    Args:
        moves: that the result follows in whole numbers, or that leave it as it is.
        above, below: how many steps are added for numbers above 0, and for those below.
        result: its name.
        text: how it differs.
        repeats: whether the steps leave it as it is, above 0.
        across: whether they do so below 0 too, but not where 0 is among the numbers.
    """

    moves: _Moves
    above: int
    below: int
    result: str
    text: str
    repeats: bool = False
    across: bool = False

    def __str__(self) -> str:
        path, step = self.moves.path, _plain(self.moves.step)
        if self.across:
            return (
                f"{self.result} stays the same with steps of {step} added to {path}, but not "
                f"if 0 is among the numbers: with {_plain(self.below * self.moves.step)} added {self.text}"
            )
        if self.repeats:
            return (
                f"for numbers above 0, {self.result} stays the same with steps of {step} added to {path}, "
                f"but not below 0: {self.text}"
            )
        return (
            f"for numbers above 0, {self.result} follows {path} in steps of {step}; below 0 it "
            f"is rounded up, not down: {self.text}"
        )


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def check_below_zero(case: Case) -> None:
    """Move numbers by whole steps: above 0, to learn how results follow, and then below 0."""
    skip_if_incomparable(case)
    if not any(_has_integers(leaf) for _, leaf in case.eager.outputs):
        raise skip("nothing-to-check", "no result has integers", unjudged=False)
    reason = "no integers follow whole steps of floating-point numbers above 0"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        shown_on = None
        if not _has_numbers_below_zero(case, broken.moves.path):
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
    said = (lines_about(case.op, base_name(path)), *sentences(case.op, of_op=True))
    return _NEGATIVE.search(said[0]) is not None or any(map(_BOTH_SIDES.search, said))


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether integers follow steps above 0, and a result that does not follow them below."""
    calls = Caller(in_double_if_taken(case))
    is_learned = False
    for path, tensor in replaceable(calls.case):
        for step in _steps(calls.case):
            moves = _Moves(path, step)
            rules, broken = _judged(calls, moves, tensor)
            is_learned |= bool(rules)
            if broken is None and rules == {}:
                broken = _across(calls, moves, tensor)
            if broken is not None:
                return True, broken
    calls = Caller(case)
    for path, tensor in _whole_numbers(case):
        for step in _whole_steps(case, path):
            # Times are often multiples of a step, for which nothing is cut off.
            for start in dict.fromkeys((0, step // 3)):
                rules, broken = _judged(calls, _Moves(path, step, start), tensor)
                is_learned |= bool(rules)
                if broken is not None:
                    return True, broken
    return is_learned, None


def _judged(
    calls: Caller, moves: _Moves, tensor: torch.Tensor
) -> tuple[dict[str, torch.Tensor] | None, _Broken | None]:
    """What is learned above 0, and what is wrong below; None for numbers too far from 0."""
    low, high = tensor.min().item() + moves.start, tensor.max().item() + moves.start
    above = max(1, math.ceil(-low / moves.step) + 1)
    below = -max(0, math.ceil(high / moves.step))
    if max(above, -below) > _LARGEST or not _holds(tensor.dtype, low, high, moves, above, below):
        return None, None
    rules = _rules(calls, moves, above, repeating=not tensor.is_floating_point())
    if not rules:
        return rules, None
    broken = [_wrong(calls, moves, above, below - more, rules) for more in _FURTHER]
    return rules, None if None in broken else broken[0]


def _holds(
    dtype: torch.dtype, low: float, high: float, moves: _Moves, above: int, below: int
) -> bool:
    """Whether a dtype has all numbers that are tried."""
    if dtype.is_floating_point:
        return True
    limits = torch.iinfo(dtype)
    most = high + (above + max(_STEPS)) * moves.step
    return limits.min <= low + (below - max(_FURTHER)) * moves.step and most <= limits.max


def _whole_numbers(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of the integers that may be below 0 by the text about their argument."""
    for path, tensor in case.inputs().tensors():
        name = base_name(path)
        if tensor.dtype not in (torch.int32, torch.int64) or not is_plain(tensor):
            continue
        if not tensor.numel() or name in case.op.mutated or names_positions(name):
            continue
        if marks_negative_missing(case.op, name) or pads_with_negative(case.op):
            continue
        if _NEGATIVE.search(lines_about(case.op, name)):
            yield path, tensor


def _whole_steps(case: Case, path: str) -> Iterator[int]:
    """The whole numbers among the steps; also those of calendars if a docstring speaks of times."""
    yield from (int(step) for step in _steps(case) if step.is_integer())
    if any(map(_CALENDAR.search, sentences(case.op, of_op=True))):
        yield from _OF_CALENDARS


def _steps(case: Case) -> Iterator[float]:
    """1, and the plain numbers above 0, which may be the size of a cell."""
    found = [1.0]
    for _, value in case.op.bind(case.sample):
        values = value if isinstance(value, (list, tuple)) else [value]
        found += [float(each) for each in values if type(each) in (int, float)]
    yield from dict.fromkeys(step for step in found if 0 < step < math.inf)


def _rules(calls: Caller, moves: _Moves, above: int, *, repeating: bool) -> dict[str, torch.Tensor]:
    """By result of integers: how much each element grows with a step; those without a rule are left out.

    Args:
        repeating: whether results that no step changes are kept, if half a step changes them.
    """
    first = moves.integers(calls, above)
    rules = {}
    for name, value in first.items():
        moved = [moves.integers(calls, above + more).get(name) for more in _STEPS]
        if any(each is None or each.shape != value.shape for each in moved):
            continue
        later = [each for each in moved if each is not None]
        times = later[0] - value
        follows = all(
            torch.equal(each, value + times * more)
            for each, more in zip(later, _STEPS, strict=True)
        )
        if follows and (
            bool(times.any()) or (repeating and _varies(calls, moves, above, name, value))
        ):
            rules[name] = times
    return rules


def _varies(calls: Caller, moves: _Moves, steps: int, name: str, value: torch.Tensor) -> bool:
    """Whether a part of a step changes most elements of a result."""
    part = moves._replace(start=moves.start + int(moves.step * _PART))
    found = part.integers(calls, steps).get(name)
    if found is None or found.shape != value.shape or part.start == moves.start:
        return False
    return float((found != value).double().mean()) >= _SHARE


def _wrong(
    calls: Caller, moves: _Moves, above: int, below: int, rules: dict[str, torch.Tensor]
) -> _Broken | None:
    """The first result whose elements are one too high below 0, nearly all that follow the steps.

    One that steps leave as it is must be wrong in nearly all elements, and vary there too.
    """
    first, found = moves.integers(calls, above), moves.integers(calls, below)
    for name, times in rules.items():
        if name not in found or found[name].shape != times.shape:
            continue
        expected = first[name] + times * (below - above)
        repeats = not bool(times.any())
        judged = torch.ones_like(times, dtype=torch.bool) if repeats else times != 0
        gap = (found[name] - expected)[judged]
        allowed = repeats or bool(((gap == 0) | (gap == 1) | (gap == times[judged])).all())
        if not allowed or float((gap != 0).double().mean()) < _SHARE:
            continue
        if repeats and not _varies(calls, moves, below, name, found[name]):
            continue
        at = int((judged & (found[name] != expected)).flatten().nonzero()[0])
        got, right = (int(each.flatten()[at]) for each in (found[name], expected))
        added = _plain(moves.start + below * moves.step)
        text = f"element {at} is {got} instead of {right} with {added} added"
        return _Broken(moves, above, below, name, text, repeats)
    return None


def _across(calls: Caller, moves: _Moves, tensor: torch.Tensor) -> _Broken | None:
    """A result that changes only where 0 is among the numbers."""
    found = changed_across_zero(tensor, moves.step, partial(moves.integers, calls))
    if found is None:
        return None
    return _Broken(moves, found.above, found.steps, found.result, found.text, across=True)


def _script(case: Case, broken: _Broken) -> str:
    moves = broken.moves
    place = expression(case, moves.path)
    at = position(case, broken.result)
    start = f"{moves.start} + " if moves.start else ""
    return (
        call_lines(broken.result)
        + "\ndef result(steps):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach() + ({start}{moves.step!r} * steps)\n"
        + f"    return call(args, kwargs)[{at}].long()\n\n\n"
        + f"above = result({broken.above})\n"
        + (
            "expected = above\n"
            if broken.across
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
            "it stays the same with each step, but not below 0, or not if 0 is among the numbers."
        ),
        why=(
            "`.long()`, `.int()`, `astype(int)` and a cast in C++ cut off the fraction, which is rounding "
            "up below 0: the cells on both sides of 0 become one, and all others are shifted. So do `/` "
            "and `%` for integers in C++, torch.fmod and rounding_mode='trunc'."
        ),
        fix=(
            "Round down before the cast: torch.floor(x / step).long(); for integers: "
            "torch.div(x, step, rounding_mode='floor') and torch.remainder. If numbers below 0 do not "
            "occur, have the op reject them, or declare that with tensor(low=0) in the sample; if rounding "
            "to 0 is meant, say so in the docstring."
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
        "among the numbers. Integers that may be negative by the text about their argument are moved too, "
        "and also by days, weeks and 400 years if a docstring speaks of times. It is a note if the sample "
        "has no numbers below 0 and no text about the argument allows them."
    ),
    cannot_see=(
        "Ops that reject numbers below 0, or say that they round to 0; steps that are no plain number, or "
        "differ between columns without a common one."
    ),
    cost="calls",
)
