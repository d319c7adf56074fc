"""Integers that a tensor is filled with: small ones, and those near the ends of its dtype."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ....cases.documented_integers import Range

_SPREAD = 6  # from the first number of a range to the last
_MARGIN = 2  # in some ops the ends themselves stand for missing values
_PRODUCT = 50_000  # from here on a product of two does not fit int32
_MIDDLE = 2_000  # a product with this does, unless the other factor is large: that of a hash


class Numbers(NamedTuple):
    """Numbers of one tensor: two ranges, from which elements come in turn, and their order.

    Args:
        first, second: ranges, with both ends.
        order: 1: increasing; -1: decreasing; 0: neither.
        every: n > 1: each n-th element is from the second range, the others from the first.
    """

    first: Range
    second: Range
    order: int = 0
    every: int = 1


class Fill(NamedTuple):
    """Numbers for several tensors.

    Args:
        name: for a message.
        demanding: whether they are near the ends of the dtype.
        numbers: of each tensor.
    """

    name: str
    demanding: bool
    numbers: tuple[Numbers, ...]


def small_fills(limits: list[Range], wide: bool) -> list[Fill]:
    """Small numbers: few that are not 0, all orders, decreasing and increasing from tensor to tensor.

    Args:
        limits: of each tensor.
        wide: whether the numbers have 32 bits. Then numbers of medium size are among these.
    """
    count = len(limits)
    few, mixed, falling, rising, middle = [], [], [], [], []
    for at, bounds in enumerate(limits):
        start = _start(bounds)
        narrow_range, wide_range = _window(bounds, start + 1, 1), _window(bounds, start, 3)
        few.append(Numbers(Range(start, start), narrow_range, every=5))
        mixed.append(Numbers(wide_range, wide_range))
        spread = 2 - at % 2  # so that differences are not all the same
        falls = _window(bounds, start + 2 * (count - 1 - at), spread)
        rises = _window(bounds, start + 2 * at, spread)
        falling.append(Numbers(falls, falls, order=-1))
        rising.append(Numbers(rises, rises, order=1))
        far = _window(bounds, _MIDDLE, _SPREAD)
        middle.append(Numbers(far, far))
    fills = [("few", few), ("small", mixed), ("falling", falling), ("rising", rising)]
    if wide:
        fills.append(("middle", middle))
    return [Fill(name, False, tuple(numbers)) for name, numbers in fills]


def demanding_fills(limits: list[Range], wide: bool, ends: bool) -> list[Fill]:
    """Numbers near the ends.

    Args:
        limits, wide: as in `small_fills`.
        ends: whether the ends themselves come too.
    """
    high, low, mixed, product, last = [], [], [], [], []
    for bounds in limits:
        top = _window(bounds, bounds.high - _MARGIN - _SPREAD, _SPREAD)
        bottom = _window(bounds, bounds.low + _MARGIN, _SPREAD)
        high.append(Numbers(top, top))
        low.append(Numbers(bottom, bottom))
        mixed.append(Numbers(bottom, top))
        large = _window(bounds, _PRODUCT, _SPREAD)
        product.append(Numbers(large, large))
        last.append(Numbers(Range(bounds.low, bounds.low), Range(bounds.high, bounds.high)))
    fills = [("near the upper end", high), ("near both ends", mixed)]
    if wide:
        fills.insert(0, ("with large products", product))
    if any(bounds.low < 0 for bounds in limits):
        fills.append(("near the lower end", low))
    if ends:
        fills.append(("at the ends", last))
    return [Fill(name, True, tuple(numbers)) for name, numbers in fills]


def equal_fill(number: int, count: int) -> Fill:
    """The same number in all elements of so many tensors."""
    numbers = Numbers(Range(number, number), Range(number, number))
    return Fill(f"all {number}", True, (numbers,) * count)


def filled(like: torch.Tensor, numbers: Numbers, seed: int) -> torch.Tensor:
    """A tensor of these numbers, with the sizes, strides and dtype of another one.

    Args:
        seed: tensors of one call get different ones.
    """
    at = torch.arange(like.numel())
    turn = _scattered(at, seed + 1) % 2
    values = torch.where(
        turn == 0, _drawn(numbers.first, at, seed), _drawn(numbers.second, at, seed)
    )
    if numbers.every > 1:
        mask = at % numbers.every == seed % numbers.every
        values = torch.where(mask, _drawn(numbers.second, at, seed), numbers.first.low)
    if numbers.order:
        values = values.sort(descending=numbers.order < 0).values
    return torch.empty_like(like).copy_(values.reshape(like.shape))


def _drawn(limits: Range, at: torch.Tensor, seed: int) -> torch.Tensor:
    return limits.low + _scattered(at, seed) % (limits.high - limits.low + 1)


def _scattered(at: torch.Tensor, seed: int) -> torch.Tensor:
    """Integers without an order that rows or columns share, the same at each call."""
    return (at * 40503 + 7919 * seed) // 16


def _start(limits: Range) -> int:
    """The smallest number of those that are called small: 0 where it is allowed."""
    return min(max(limits.low, 0), limits.high)


def _window(limits: Range, start: int, spread: int) -> Range:
    low = min(max(start, limits.low), limits.high)
    return Range(low, min(low + spread, limits.high))
