"""Which numbers are moved, by which steps, and whether they may be below 0."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import torch

from ....cases.argument_names import names_positions
from ....cases.case import Case
from ....cases.documented import (
    lines_about,
    marks_negative_missing,
    pads_with_negative,
    sentences,
)
from ....cases.tensors import base_name, is_plain

_CALENDAR = re.compile(r"\b(1970|epochs?|timestamps?|dates?|days?|weekdays?|hours?|years?)\b", re.I)
# A day and a week in seconds; 400 years, after which the Gregorian calendar repeats, in days and seconds.
_OF_CALENDARS = (86_400, 604_800, 146_097, 146_097 * 86_400)
# The text about an argument allows numbers below 0.
_NEGATIVE = re.compile(
    r"\bnegative\b(?<!non-negative)|(?<![\w.)\]])-\s?\d|\bsigned\b|\b(below|either side of) (0|zero)\b"
    r"|\bany (real|finite|number|position|coordinate)s?\b|\bfrom -|\banywhere\b|\b(both|either) signs?\b",
    re.I,
)
_BOTH_SIDES = re.compile(r"\b(both|either) sides? of (0|zero|the origin)\b", re.I)


def whole_numbers(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
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


def whole_steps(case: Case) -> Iterator[int]:
    """The whole numbers among the steps; also those of calendars if a docstring speaks of times."""
    yield from (int(step) for step in steps_of(case) if step.is_integer())
    if any(map(_CALENDAR.search, sentences(case.op, of_op=True))):
        yield from _OF_CALENDARS


def steps_of(case: Case) -> Iterator[float]:
    """1, and the plain numbers above 0, which may be the size of a cell."""
    found = [1.0]
    for _, value in case.op.bind(case.sample):
        values = value if isinstance(value, (list, tuple)) else [value]
        found += [float(each) for each in values if type(each) in (int, float)]
    yield from dict.fromkeys(step for step in found if 0 < step < math.inf)


def may_be_below_zero(case: Case, path: str) -> bool:
    """Whether the sample has numbers below 0 there, or the text about the argument allows them."""
    if bool((dict(case.inputs().tensors())[path] < 0).any()):
        return True
    said = (lines_about(case.op, base_name(path)), *sentences(case.op, of_op=True))
    return _NEGATIVE.search(said[0]) is not None or any(map(_BOTH_SIDES.search, said))
