"""Numbers that are moved by whole steps, and results that follow them above 0 and not below."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch

from ....cases.tensors import is_differentiable
from ....core.wording import plain_number
from ...values.memory.calls import Caller, copied_results
from .across import changed_across_zero

_STEPS = (1, 2, 5)  # that the rule is learned from
_FURTHER = (3, 10)  # steps below 0
_SHARE = 0.9  # of the elements that are one too high
_PART = 0.3  # of a step, which changes what steps leave as it is
_LARGEST = 2**40  # a step count; further away nothing is exact


class Moves(NamedTuple):
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
            if isinstance(leaf, torch.Tensor) and has_integers(leaf)
        }


class Rule(NamedTuple):
    """A result of integers for numbers above 0, and how much each element grows with a step."""

    above: torch.Tensor
    times: torch.Tensor


class Truncated(NamedTuple):
    """A result that is one too high for numbers below 0, or that changes where 0 is among the numbers.

    Args:
        moves: that the result follows in whole numbers, or that leave it as it is.
        above, below: how many steps are added for numbers above 0, and for those below.
        result: its name.
        text: how it differs.
        repeats: whether the steps leave it as it is, above 0.
        across: whether they do so below 0 too, but not where 0 is among the numbers.
    """

    moves: Moves
    above: int
    below: int
    result: str
    text: str
    repeats: bool = False
    across: bool = False

    def __str__(self) -> str:
        path, step = self.moves.path, plain_number(self.moves.step)
        if self.across:
            added = plain_number(self.below * self.moves.step)
            return (
                f"{self.result} stays the same with steps of {step} added to {path}, but not "
                f"if 0 is among the numbers: with {added} added {self.text}"
            )
        if self.repeats:
            return (
                f"for numbers above 0, {self.result} stays the same with steps of {step} added to {path}; "
                f"below 0 it is negative: {self.text}"
            )
        return (
            f"for numbers above 0, {self.result} follows {path} in steps of {step}; below 0 it "
            f"is rounded up, not down: {self.text}"
        )


def has_integers(leaf: torch.Tensor) -> bool:
    exact = not is_differentiable(leaf.dtype) and leaf.dtype not in (torch.bool, torch.uint8)
    return exact and leaf.numel() > 0


def judge(
    calls: Caller, moves: Moves, tensor: torch.Tensor
) -> tuple[dict[str, Rule] | None, Truncated | None]:
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
    dtype: torch.dtype, low: float, high: float, moves: Moves, above: int, below: int
) -> bool:
    """Whether a dtype has all numbers that are tried."""
    if dtype.is_floating_point:
        return True
    limits = torch.iinfo(dtype)
    most = high + (above + max(_STEPS)) * moves.step
    return limits.min <= low + (below - max(_FURTHER)) * moves.step and most <= limits.max


def _rules(calls: Caller, moves: Moves, above: int, *, repeating: bool) -> dict[str, Rule]:
    """The rules by result of integers; those without a rule are left out.

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
            rules[name] = Rule(value, times)
    return rules


def _varies(calls: Caller, moves: Moves, steps: int, name: str, value: torch.Tensor) -> bool:
    """Whether a part of a step changes most elements of a result."""
    part = moves._replace(start=moves.start + int(moves.step * _PART))
    found = part.integers(calls, steps).get(name)
    if found is None or found.shape != value.shape or part.start == moves.start:
        return False
    return float((found != value).double().mean()) >= _SHARE


def _wrong(
    calls: Caller, moves: Moves, above: int, below: int, rules: dict[str, Rule]
) -> Truncated | None:
    """The first result whose elements are one too high below 0, nearly all that follow the steps.

    One that steps leave as it is must be below 0 there, as a remainder with the sign of its dividend.
    """
    found = moves.integers(calls, below)
    for name, (first, times) in rules.items():
        if name not in found or found[name].shape != times.shape:
            continue
        expected = first + times * (below - above)
        repeats = not bool(times.any())
        judged = torch.ones_like(times, dtype=torch.bool) if repeats else times != 0
        gap = (found[name] - expected)[judged]
        if repeats:
            is_cut_off = bool((expected >= 0).all()) and _varies(
                calls, moves, below, name, found[name]
            )
            share = float((found[name] < 0).double().mean())
        else:
            is_cut_off = bool(((gap == 0) | (gap == 1) | (gap == times[judged])).all())
            share = float((gap != 0).double().mean())
        if not is_cut_off or share < _SHARE:
            continue
        at = int((judged & (found[name] != expected)).flatten().nonzero()[0])
        got, right = (int(each.flatten()[at]) for each in (found[name], expected))
        added = plain_number(moves.start + below * moves.step)
        text = f"element {at} is {got} instead of {right} with {added} added"
        return Truncated(moves, above, below, name, text, repeats)
    return None


def judge_across(calls: Caller, moves: Moves, tensor: torch.Tensor) -> Truncated | None:
    """A result that changes only where 0 is among the numbers."""
    found = changed_across_zero(tensor, moves.step, partial(moves.integers, calls))
    if found is None:
        return None
    return Truncated(moves, found.above, found.steps, found.result, found.text, across=True)
