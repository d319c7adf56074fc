"""Compare results for narrow integers with those for the same numbers in a wider dtype."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from ....cases.tensors import is_differentiable
from ...values.memory.calls import Leaves, comparable

_SHARE = 0.02  # of the largest number, for results that pass through floating-point numbers
_SURE = 2.0**62  # beyond it the wider dtype may wrap too


class Found(NamedTuple):
    """How two results compare.

    Args:
        fitting: the number of elements that the result's dtype could hold.
        values: some of the distinct numbers among these.
        wrong: a text on the first difference; empty where they agree.
        name: of the result that differs.
        is_sum: whether each difference is a multiple of 2 to the number of bits: additions and products
            wrap, and nothing else follows.
        same_shapes: whether the results are of equal kinds and sizes.
        is_far: whether some difference is at least a quarter of the range of the arguments' dtype, and the
            expected number is smaller than that: rounding does not explain it.
    """

    fitting: int = 0
    values: frozenset[float] = frozenset()
    wrong: str = ""
    name: str = ""
    is_sum: bool = False
    same_shapes: bool = True
    is_far: bool = False


def compared(narrow: Leaves, wide: Leaves, dtype: torch.dtype, rounds: bool) -> Found:
    """Compare the results of two calls, where the dtype of the narrow one can hold the wide one.

    Args:
        dtype: of the narrow arguments.
        rounds: whether integers may pass through floating-point numbers whose precision depends on the
            dtype of the arguments.
    """
    wide_values = dict(wide)
    total, values = 0, set[float]()
    for name, narrow_value in narrow:
        wide_value = wide_values.get(name)
        pair = _as_pair(narrow_value, wide_value)
        if pair is None:
            if isinstance(narrow_value, torch.Tensor) != isinstance(wide_value, torch.Tensor):
                return Found(same_shapes=False)
            continue
        actual, expected = pair
        if actual.shape != expected.shape:
            return Found(same_shapes=False)
        fits = _fits(actual, expected)
        total += int(fits.sum())
        values |= set(torch.unique(expected[fits].double())[:8].tolist())
        wrong = fits & ~_agree(actual, expected, rounds) & ~_other_sign(actual, expected, dtype)
        if bool(wrong.any()):
            gaps = actual[wrong].double() - expected[wrong].double()
            is_sum = bool((torch.fmod(gaps, 2.0 ** _bits(dtype)) == 0).all())
            far = 2.0 ** (_bits(dtype) - 2)
            is_far = bool(((gaps.abs() >= far) & (expected[wrong].double().abs() < far)).any())
            text = _text(name, actual, expected, wrong)
            return Found(total, frozenset(values), text, name, is_sum=is_sum, is_far=is_far)
    return Found(total, frozenset(values))


def _as_pair(narrow: object, wide: object) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Two results as tensors of real numbers; None if they are none."""
    tensors = []
    for value in (narrow, wide):
        if isinstance(value, (bool, int, float)):
            value = torch.as_tensor(value, dtype=None if isinstance(value, bool) else torch.float64)
        if not isinstance(value, torch.Tensor) or not comparable(value) or value.is_complex():
            return None
        if value.layout != torch.strided or value.is_quantized:
            return None
        tensors.append(value.detach())
    if (tensors[0].dtype == torch.bool) != (tensors[1].dtype == torch.bool):
        return None
    return tensors[0], tensors[1]


def _bits(dtype: torch.dtype) -> int:
    return 8 * dtype.itemsize


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return 0.0, 1.0
    known = torch.finfo(dtype) if is_differentiable(dtype) else torch.iinfo(dtype)
    return float(known.min), float(known.max)


def _fits(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where the dtype of `actual` can hold the values of `expected`."""
    low, high = _limits(actual.dtype)
    value = expected.double()
    return value.isfinite() & (value >= low) & (value <= high) & (value.abs() < _SURE)


def _agree(actual: torch.Tensor, expected: torch.Tensor, rounds: bool) -> torch.Tensor:
    fractions = is_differentiable(actual.dtype) or is_differentiable(expected.dtype)
    if not (fractions or rounds) or actual.dtype == torch.bool:
        return (
            actual == expected if actual.dtype == torch.bool else actual.long() == expected.long()
        )
    value = expected.double()
    finite = value[value.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    rounded = not is_differentiable(actual.dtype)  # to integers, perhaps twice
    allowed = max(2.0, _SHARE * largest) if rounded else _SHARE * largest
    return (actual.double() - value).abs() <= allowed + 1e-6


def _other_sign(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where results differ only by reading the same bits with or without a sign: no sum wraps."""
    low, high = _limits(dtype)
    value = expected.double()
    gap = torch.fmod(actual.double() - value, 2.0 ** _bits(dtype))
    return (gap == 0) & (value >= low) & (value <= high)


def _text(name: str, actual: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> str:
    count, total = int(wrong.sum()), wrong.numel()
    place = tuple(int(i) for i in wrong.nonzero()[0])
    where = f" at {list(place)}" if place else ""
    elements = f"{count} of {total} elements differ; the first{where}: " if total > 1 else ""
    return f"{name}: {elements}{_number(actual[place])} instead of {_number(expected[place])}"


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.9g}" if isinstance(value, float) and math.isfinite(value) else str(value)
