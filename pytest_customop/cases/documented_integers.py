"""Read from an op's docstrings the range of an argument's integers: `0 to 2**21 - 1`, `any int64 value`."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import torch

from ..declare.ops import Op
from .documented import lines_about

_POWER, _LESS_ONE = r"(?:\s?(?:\*\*|\^)\s?\d+)?", r"(?:\s?-\s?1(?!\d))?"
_NUMBER = rf"(?<!\w)(?<!\d\.)`*-?(?:\d+(?:[_,]\d{{3}})+|\d+){_POWER}{_LESS_ONE}`*(?!\w|\.\d)"
_LOW, _HIGH = rf"(?P<low>{_NUMBER})\s*", rf"\s*(?P<high>{_NUMBER})\s*"
_LESS = r"<=?|\u2264"
_RANGES = (
    re.compile(rf"{_LOW}(?:{_LESS})\s*`*\w+(?:\[\w+\])?`*\s*(?P<end>{_LESS}){_HIGH}"),
    re.compile(
        rf"\b(?:in|within|range|interval|values?)\W*\[\s*{_LOW},{_HIGH}(?P<end>[\])])", re.I
    ),
    re.compile(rf"\bbetween\s+{_LOW}\band\b{_HIGH}(?P<end>)", re.I),
    re.compile(
        rf"{_LOW}(?:\.\.\.?|\u2026|\u2013|\bto\b|\bthrough\b|\bup to\b){_HIGH}(?P<end>)", re.I
    ),
)
_EXCLUDED = ("<", ")")
# Before a range, without a comma: it is about sizes. Behind it: it counts something.
_OF_SIZES = re.compile(
    r"(\b[A-Z]\w?|\b(rows|columns|dims?|sizes?|lengths?|entries|elements|version|shape|ranks?)\b)`*[^\w,]*"
    r"((is|are|in|from|at)\s*)*$"
)
_COUNTED = re.compile(
    r"^\W*(elements|entries|rows|columns|dims|dimensions|items|tokens|bits|bytes|times|steps|of them)\b",
    re.I,
)
_EVERY = re.compile(
    r"\b(any|every|all|full|whole|entire)\b (possible |valid |signed |unsigned |range of )*"
    r"`*(?P<dtype>u?int(8|16|32|64)|(8|16|32|64)-bit)`* (?!or |and )"
    r"(values?|numbers?|integers?|ids?|keys?|range|patterns?|codes?)\b",
    re.I,
)


class Range(NamedTuple):
    """The smallest and the largest integer."""

    low: int
    high: int


@functools.lru_cache(maxsize=1024)  # asked for every case
def integer_range(op: Op, argument: str) -> Range | None:
    """The integers that the text about an argument allows; None if it gives no two numbers as ends."""
    text = lines_about(op, argument)
    every = _EVERY.search(text)
    if every is not None:
        return _of_dtype(every["dtype"].lower())
    for pattern in _RANGES:
        for match in pattern.finditer(text):
            low, high = _number(match["low"]), _number(match["high"])
            high -= match["end"] in _EXCLUDED
            is_of_sizes = _OF_SIZES.search(text[: match.start()])
            if low < high and not is_of_sizes and not _COUNTED.match(text[match.end() :]):
                return Range(low, high)
    return None


def allows(documented: Range | None, tensor: torch.Tensor) -> bool:
    """Whether a range is given, and all integers of a tensor are in it."""
    if documented is None or not tensor.numel():
        return False
    return documented.low <= int(tensor.min()) and int(tensor.max()) <= documented.high


def _number(text: str) -> int:
    """The value of `255`, `65,536`, `2**31 - 1` or `10^6`."""
    plain = re.sub(r"[`_,\s]", "", text).replace("^", "**")
    base, _, rest = plain.partition("**")
    if not rest:
        first, _, less = plain[1:].partition("-")
        return int(plain[0] + first) - bool(less)
    exponent, _, less = rest.partition("-")
    power: int = int(base) ** min(int(exponent), 64)
    return power - bool(less)


def _of_dtype(name: str) -> Range:
    name = f"int{name.removesuffix('-bit')}" if name.endswith("-bit") else name
    known = torch.iinfo(getattr(torch, name))
    return Range(known.min, known.max)
