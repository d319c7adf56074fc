"""Integers that whole steps of numbers do not change, such as how many lie in each cell, around 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch

_STEPS = (1, 2, 5)
_PARTS = (0.3, 0.55, 0.8)  # of a step: they must change the result, or it has no cells
_PLACES = 4  # of 0 among the numbers, at most
_NEAR = 1e-6  # of a step: numbers so near to a line between cells may be rounded to either side

Integers = Mapping[str, torch.Tensor]


class Across(NamedTuple):
    """A result that changes where 0 is among the numbers, and nowhere else.

    Args:
        result: its name.
        above: how many steps are added for numbers above 0.
        steps: how many are added where it changes.
        text: how it differs.
    """

    result: str
    above: int
    steps: int
    text: str


def changed_across_zero(
    numbers: torch.Tensor, step: float, integers: Callable[[float], Integers]
) -> Across | None:
    """The first such result, and where it changes; None without one.

    Args:
        numbers: in double precision.
        step: the size of a cell.
        integers: the results of integers with so many steps added to the numbers.
    """
    parts = numbers.double() / step
    if bool(((parts - parts.round()).abs() < _NEAR).any()):
        return None
    low, high = float(parts.min()), float(parts.max())
    above, below = math.ceil(-low) + 1, -math.ceil(high) - 1
    first = integers(above)
    away = [integers(above + more) for more in _STEPS] + [integers(below - more) for more in _STEPS]
    between = [integers(above + part) for part in _PARTS]
    for name, value in first.items():
        is_kept = all(_is_same(other.get(name), value) for other in away)
        if not is_kept or all(_is_same(other.get(name), value) for other in between):
            continue
        for steps in _across(low, high):
            found = integers(steps).get(name)
            if found is not None and not _is_same(found, value):
                return Across(name, above, steps, _difference(found, value))
    return None


def _across(low: float, high: float) -> Iterator[int]:
    """Whole steps with which some numbers are below 0 and others above."""
    first, last = -math.floor(high), -math.floor(low) - 1
    yield from range(first, min(last + 1, first + _PLACES))


def _is_same(found: torch.Tensor | None, expected: torch.Tensor) -> bool:
    return found is not None and found.shape == expected.shape and torch.equal(found, expected)


def _difference(found: torch.Tensor, expected: torch.Tensor) -> str:
    if found.shape != expected.shape:
        return f"its shape is {tuple(found.shape)} instead of {tuple(expected.shape)}"
    at = int((found != expected).flatten().nonzero()[0])
    got, right = (int(each.flatten()[at]) for each in (found, expected))
    return f"element {at} is {got} instead of {right}"
