"""Which elements `relations.range_ends` moves, and to which numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ....cases.case import Case
from ....cases.documented import sentences
from ....cases.documented_ranges import SPECIAL_ENDS, closed_ranges, sentences_on_ranges
from ....cases.tensors import base_name, is_plain
from ....declare.ops import Op

# The last pixel of a row, as in `(W - 1, H - 1)`; not where it is called outside.
_LAST = re.compile(r"(?<![<>=])(?<![<>=] )\b[A-Z]\w*\s*-\s*1\b")
# The smallest or largest number of a dtype has a meaning of its own, or does not belong to the range.
_RESERVED = re.compile(
    r"\b(sentinels?|missing|no[- ]?data|reserved|padding|invalid|ignored|unused|symmetric\w*|masks?|codes?"
    r"|packed|bit[- ]?(fields?|planes?|strings?)|flags?|labels?|ids?|ind(ex|ices))\b"
    r"|-\s*(12[78]|3276[78])\b",
    re.I,
)
_NARROW = (torch.int8, torch.uint8, torch.int16)
_NAMES_NARROW = re.compile(r"\bu?int(8|16)\b|\b(8|16)[- ]?bits?\b|\bPCM\b", re.I)
# Away from a number, as parts of the range: two small steps, and two that are ten times as large.
_STEPS = (1e-4, 2e-4, 1e-3, 2e-3)
_PLACE = 0.37  # a place in the range, as a part of it
_INTEGER_STEPS = (1, 2, 10, 20)
_INTEGER_PLACE = 0.05
_ELEMENTS = 3  # of a tensor that are moved


class End(NamedTuple):
    """An element of a tensor, and an end of its range.

    Args:
        path: of the tensor.
        element: of the flattened tensor.
        end: the number.
        steps: from it into the range, as in `_STEPS`.
        place: a number in the range.
        of: whose range it is, for a message.
    """

    path: str
    element: int
    end: float
    steps: tuple[float, ...]
    place: float
    of: str

    def inside(self, step: float) -> float:
        """The number that is a step away from the end."""
        return self.end + step


class _Range(NamedTuple):
    """A range of numbers.

    Args:
        low, high: its ends, which belong to it.
        steps: from an end into the range, as in `_STEPS`.
        place: how far a place inside is from an end.
        of: whose range it is, for a message.
    """

    low: float
    high: float
    steps: tuple[float, ...]
    place: float
    of: str


def has_range(op: Op) -> bool:
    """Whether a docstring names a closed range of an argument, the last pixel, or a narrow integer."""
    names = [item.name for item in op.arguments if "Tensor" in str(item.type)]
    is_named = any(closed_ranges(op, name) for name in names) or any(
        map(_LAST.search, sentences_on_ranges(op))
    )
    return is_named or _may_be_any(op)


def ends(case: Case) -> Iterator[End]:
    """The elements that are moved: some that are inside of a range, in a tensor most of which is."""
    for path, tensor in case.inputs().tensors():
        if base_name(path) in case.op.mutated or not tensor.numel() or not is_plain(tensor):
            continue
        values = tensor.detach().flatten().to(torch.float64)
        for limits in _ranges_of(case, path, tensor):
            low, high = limits.low, limits.high
            inside = ((values > low) & (values < high)).nonzero().flatten()
            if 2 * len(inside) < len(values) or values.abs().max() > 2 * max(high, -low):
                continue
            for element in inside[:_ELEMENTS].tolist():
                for end, inward in ((high, -1), (low, 1)):
                    steps = tuple(inward * step for step in limits.steps)
                    place = end + inward * limits.place
                    yield End(path, element, end, steps, place, limits.of)


def _ranges_of(case: Case, path: str, tensor: torch.Tensor) -> Iterator[_Range]:
    """The ranges that the numbers of a tensor may have."""
    if tensor.is_floating_point():
        known = [*closed_ranges(case.op, base_name(path)), *_pixels(case, path)]
        for low, high in dict.fromkeys(known):
            length = high - low
            steps = tuple(step * length for step in _STEPS)
            yield _Range(low, high, steps, _PLACE * length, "its documented range")
    elif tensor.dtype in _NARROW and _may_be_any(case.op):
        limits = torch.iinfo(tensor.dtype)
        place = int(_INTEGER_PLACE * (limits.max - limits.min))
        of = f"the range of {str(tensor.dtype).removeprefix('torch.')}"
        yield _Range(limits.min, limits.max, _INTEGER_STEPS, place, of)


def _pixels(case: Case, path: str) -> Iterator[tuple[float, float]]:
    """From the first to the last pixel of the other tensors, if a docstring names the last one."""
    if not any(map(_LAST.search, sentences_on_ranges(case.op))):
        return
    for other, tensor in case.inputs().tensors():
        if other != path and tensor.is_floating_point() and tensor.dim() > 1:
            yield from ((0.0, size - 1.0) for size in tensor.shape[-2:] if size > 2)


def _may_be_any(op: Op) -> bool:
    """Whether a docstring names narrow integers, and gives neither end of their range a meaning."""
    said = [*sentences(op)]
    is_special = any(SPECIAL_ENDS.search(each) or _RESERVED.search(each) for each in said)
    return any(map(_NAMES_NARROW.search, said)) and not is_special
