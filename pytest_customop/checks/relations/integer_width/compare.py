"""Compare results for narrow whole numbers with those for the same numbers in a wider dtype."""

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
        values: some of the different numbers among these.
        wrong: how the first difference reads; empty where they agree.
        name: of the result that differs.
        is_sum: whether each difference is a multiple of 2 to the number of bits: additions and products
            that wrap, and nothing after these.
        same_shapes: whether the results are of equal kinds and sizes.
    """

    fitting: int = 0
    values: frozenset[float] = frozenset()
    wrong: str = ""
    name: str = ""
    is_sum: bool = False
    same_shapes: bool = True


def compared(narrow: Leaves, wide: Leaves, dtype: torch.dtype, rounds: bool) -> Found:
    """Compare the results of two calls, where the dtype of the narrow one can hold the wide one.

    Args:
        dtype: of the narrow arguments.
        rounds: whether whole numbers may pass through floating-point numbers of a precision that depends
            on the dtype of the arguments.
    """
    expected = dict(wide)
    total, values = 0, set[float]()
    for name, one in narrow:
        other = expected.get(name)
        pair = _as_pair(one, other)
        if pair is None:
            if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
                return Found(same_shapes=False)
            continue
        got, want = pair
        if got.shape != want.shape:
            return Found(same_shapes=False)
        fits = _fits(got, want)
        total += int(fits.sum())
        values |= set(torch.unique(want[fits].double())[:8].tolist())
        wrong = fits & ~_agree(got, want, rounds) & ~_other_sign(got, want, dtype)
        if bool(wrong.any()):
            gaps = got[wrong].double() - want[wrong].double()
            is_sum = bool((torch.fmod(gaps, 2.0 ** _bits(dtype)) == 0).all())
            return Found(total, frozenset(values), _text(name, got, want, wrong), name, is_sum)
    return Found(total, frozenset(values))


def _as_pair(one: object, other: object) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Two results as tensors of real numbers; None where they are no such."""
    found = []
    for each in (one, other):
        if isinstance(each, (bool, int, float)):
            each = torch.as_tensor(each, dtype=None if isinstance(each, bool) else torch.float64)
        if not isinstance(each, torch.Tensor) or not comparable(each) or each.is_complex():
            return None
        if each.layout != torch.strided or each.is_quantized:
            return None
        found.append(each.detach())
    if (found[0].dtype == torch.bool) != (found[1].dtype == torch.bool):
        return None
    return found[0], found[1]


def _bits(dtype: torch.dtype) -> int:
    return 8 * dtype.itemsize


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return 0.0, 1.0
    known = torch.finfo(dtype) if is_differentiable(dtype) else torch.iinfo(dtype)
    return float(known.min), float(known.max)


def _fits(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Where the dtype of one result holds what the other one is."""
    low, high = _limits(got.dtype)
    value = want.double()
    return value.isfinite() & (value >= low) & (value <= high) & (value.abs() < _SURE)


def _agree(got: torch.Tensor, want: torch.Tensor, rounds: bool) -> torch.Tensor:
    fractions = is_differentiable(got.dtype) or is_differentiable(want.dtype)
    if not (fractions or rounds) or got.dtype == torch.bool:
        return got == want if got.dtype == torch.bool else got.long() == want.long()
    value = want.double()
    finite = value[value.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    allowed = _SHARE * largest if fractions else max(2.0, _SHARE * largest)
    return (got.double() - value).abs() <= allowed + 1e-6


def _other_sign(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where the same bits are read with a sign, or without one, which needs no sum."""
    low, high = _limits(dtype)
    value = want.double()
    gap = torch.fmod(got.double() - value, 2.0 ** _bits(dtype))
    return (gap == 0) & (value >= low) & (value <= high)


def _text(name: str, got: torch.Tensor, want: torch.Tensor, wrong: torch.Tensor) -> str:
    count, total = int(wrong.sum()), wrong.numel()
    place = tuple(int(i) for i in wrong.nonzero()[0])
    where = f" at {list(place)}" if place else ""
    elements = f"{count} of {total} elements differ; the first{where}: " if total > 1 else ""
    return f"{name}: {elements}{_number(got[place])} instead of {_number(want[place])}"


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.9g}" if isinstance(value, float) and math.isfinite(value) else str(value)
