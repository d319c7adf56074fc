"""How far results may be from those in a wider dtype: several times what rounded inputs change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....cases.case import Case
from ....cases.tensors import in_double, is_differentiable, is_plain, largest_magnitude
from ...values.memory.calls import GRADIENT, Leaves
from .inputs import Dtypes

# The op may round more often, and more coarsely, than its inputs are rounded. In half precision, moved
# inputs are far apart already.
_TIMES, _TIMES_HALF = 16, 4
_STEPS = 4  # up to so many times the largest jump from moved inputs is no difference
_LARGEST_SHARE = 0.125
# The allowed difference as a share of the largest result; kernels may use TF32, or approximate.
_SHARES = {torch.float16: 0.02, torch.bfloat16: 0.1}
_SHARE = 2e-3


_ROUNDINGS = 4  # of a large integer
_LOST = 0.1  # lost results are larger than this, and moved inputs change them by a smaller share
_TINY = 1e-30
_BETWEEN = 0.01  # the share of integers that may be off by one


class Difference(NamedTuple):
    """A result that differs from that in the wider dtype.

    Args:
        name: of the result.
        text: how it differs, at the element that differs most.
        element: the position of that element in the flattened result.
        allowed: by how much this element may differ.
        is_lost: whether the element is NaN, infinite or 0 by overflow in the narrower dtype alone.
        in_sign_alone: whether all elements agree but for their signs, or phases.
        share: by which share of the largest result the element differs.
    """

    name: str
    text: str
    element: int
    allowed: float
    is_lost: bool
    in_sign_alone: bool = False
    share: float = 0.0


@dataclass(frozen=True)
class Judge:
    """Compares the results of a case with those in a wider dtype.

    Args:
        case: the case.
        dtypes: the two dtypes.
        narrow, wide: the results.
        base: the results in one of the dtypes.
        moved: those in that dtype for inputs moved by roundings.
    """

    case: Case
    dtypes: Dtypes
    narrow: Leaves
    wide: Leaves
    base: Leaves
    moved: Sequence[Leaves]

    def difference(self) -> Difference | None:
        """The first result that differs by more than is allowed; None without one."""
        signs_are_free = False  # as for eigenvectors; gradients depend on them
        expected = dict(self.wide)
        for name, value in self.narrow:
            is_gradient = name.startswith(GRADIENT)
            difference = self._compare(name, value, expected.get(name))
            if difference is None or (signs_are_free and is_gradient):
                continue
            if is_gradient or not difference.in_sign_alone:
                return difference
            signs_are_free = True
        return None

    def _compare(self, name: str, value: Any, expected: Any) -> Difference | None:
        if not (isinstance(value, Tensor) and isinstance(expected, Tensor)):
            return None  # a number may be the size of an element, or of a workspace
        jumps = self._jumps(name)
        if not all(map(is_plain, (value, expected))) or not value.numel():
            return None
        if value.shape != expected.shape or any(jump.shape != value.shape for jump in jumps):
            return None  # the size depends on the values, or on the dtype
        if is_differentiable(expected.dtype) != is_differentiable(value.dtype):
            return None
        if is_differentiable(expected.dtype):
            return self._compare_floats(name, value, expected, jumps)
        if value.dtype != expected.dtype:
            return None
        return _compare_whole(name, value, expected, jumps, self.dtypes.eps)

    def _jumps(self, name: str) -> list[Tensor]:
        """How far moved inputs move a result: a tensor for each move, empty if the shape changes."""
        base = dict(self.base).get(name)
        if not isinstance(base, Tensor) or not is_plain(base):
            return []
        others = [dict(leaves).get(name) for leaves in self.moved]
        return [
            _jump(moved, base) if moved.shape == base.shape else torch.empty(0)
            for moved in others
            if isinstance(moved, Tensor) and is_plain(moved)
        ]

    def _compare_floats(
        self, name: str, value: Tensor, wide: Tensor, jumps: Sequence[Tensor]
    ) -> Difference | None:
        rtol, atol = self.case.tolerance(value.dtype)
        if torch.allclose(value.to(wide.dtype), wide, rtol, atol):
            return None
        actual, expected = in_double(value), in_double(wide)
        spread = torch.zeros_like(expected.abs())
        lost_by_moves = torch.zeros_like(spread, dtype=torch.bool)
        for jump in jumps:
            lost_by_moves |= ~jump.isfinite()
            spread = torch.maximum(spread, jump.nan_to_num(0.0, 0.0, 0.0))
        judged = expected.isfinite() & (expected.abs() <= self._largest(value.dtype))
        judged &= ~lost_by_moves
        inside = torch.where(judged, expected, 0.0)
        largest = min(map(largest_magnitude, (inside, actual)))
        lost = self._lost(name, actual, inside, spread)
        if lost is not None:
            gap = torch.where(lost, expected.abs(), -1.0)
            difference = _worst(name, actual, expected, gap, lost, torch.zeros_like(spread))
            return difference._replace(is_lost=True)
        floor = self._floor(value.dtype, largest)
        times = _TIMES_HALF if self.dtypes.narrow.itemsize == 2 else _TIMES
        allowed = times * spread + floor + rtol * inside.abs() + atol
        judged &= expected.abs() + allowed <= 4 * self._largest(value.dtype)
        gap = (actual - expected).abs().nan_to_num(math.inf, math.inf)
        wrong = judged & (gap > allowed)
        steps = lost_by_moves | (judged & (spread > floor))
        if not bool(wrong.any()):
            return None
        masks = bool(lost_by_moves.any()) and not bool(actual[wrong].isnan().any())
        if _are_steps(gap[wrong], spread[steps], masks):
            return None
        signs = _differ_in_sign_alone(actual, expected, allowed, judged)
        difference = _worst(
            name, actual, expected, torch.where(wrong, gap - allowed, -1.0), wrong, allowed
        )
        share = float((gap * wrong).max()) / max(largest_magnitude(inside), _TINY)
        return difference._replace(in_sign_alone=signs, share=share)

    def _lost(self, name: str, actual: Tensor, expected: Tensor, spread: Tensor) -> Tensor | None:
        """Where results are 0 in float16 and large in the wider dtype, if most of the large ones are 0.

        Then the op divided by something that overflowed. Gradients may become 0 by rounding alone.
        """
        if self.dtypes.narrow != torch.float16 or name.startswith(GRADIENT):
            return None
        size = expected.abs()
        large = size > max(_LOST, _LOST * float(size.max()))
        lost = large & (actual == 0) & (spread < _LOST * size)
        return lost if int(lost.sum()) > 0.5 * int(large.sum()) else None

    def _largest(self, dtype: torch.dtype) -> float:
        """The largest number that is judged: a quarter of what the dtypes of input and result hold."""
        return min(torch.finfo(item).max for item in (self.dtypes.narrow, dtype)) / 4

    def _floor(self, dtype: torch.dtype, largest: float) -> float:
        """The difference allowed for every element, whatever moved inputs change.

        Args:
            dtype: of the result.
            largest: the largest magnitude that the result has in both dtypes.
        """
        tensors = [
            in_double(tensor) for _, tensor in self.case.inputs().tensors() if _is_float(tensor)
        ]
        numbers = [
            abs(number)
            for _, number in self.case.inputs().named()
            if isinstance(number, (int, float))
        ]
        count = max((tensor.numel() for tensor in tensors), default=1)
        eps = max(self.dtypes.eps, torch.finfo(dtype).eps)
        share = min(_LARGEST_SHARE, 4 * eps * math.sqrt(max(count, 1)))
        finite = [number for number in numbers if math.isfinite(number)]
        size = max(1.0, largest, *finite, *map(largest_magnitude, tensors))
        return _SHARES.get(self.dtypes.narrow, _SHARE) * largest + share * size


def _jump(moved: Tensor, base: Tensor) -> Tensor:
    """The distance of each element, which is 0 for one that was not finite before."""
    start = in_double(base)
    return torch.where(start.isfinite(), (in_double(moved) - start).abs(), 0.0)


def _is_float(tensor: Tensor) -> bool:
    return is_differentiable(tensor.dtype)


def _are_steps(gaps: Tensor, steps: Tensor, masks: bool) -> bool:
    """Whether differences are such jumps as moved inputs cause, and not more frequent.

    Args:
        gaps: the differences.
        steps: the jumps.
        masks: whether a jump may be infinite, as where an op masks what it leaves out.
    """
    if not steps.numel() or gaps.numel() > steps.numel():
        return False
    largest = float(gaps.max())
    if math.isinf(largest):
        return masks
    return largest <= _STEPS * float(steps.max())


def _differ_in_sign_alone(
    actual: Tensor, expected: Tensor, allowed: Tensor, judged: Tensor
) -> bool:
    gap = (actual.abs() - expected.abs()).abs().nan_to_num(math.inf, math.inf)
    return bool((~judged | (gap <= allowed)).all())


def _compare_whole(
    name: str, value: Tensor, wide: Tensor, jumps: Sequence[Tensor], eps: float
) -> Difference | None:
    """Compare integers and booleans where moved inputs do not change them.

    A few may be off by one, if a number between the two was rounded. Integers too large for a dtype of
    this `eps` to hold each of them may be rounded as in that dtype.
    """
    unstable = torch.zeros_like(wide, dtype=torch.bool)
    for jump in jumps:
        unstable |= jump != 0
    wrong = ~unstable & (value != wide)
    if not bool(wrong.any()) or int(wrong.sum()) <= int(unstable.sum()):
        return None
    actual, expected = value.to(torch.float64), wide.to(torch.float64)
    distance, size = (actual - expected).abs(), expected.abs()
    wrong &= (size < 1 / eps) | (distance > _ROUNDINGS * eps * size)
    if not bool(wrong.any()):
        return None
    gap = torch.where(wrong, distance, -1.0)
    few = int(wrong.sum()) <= _BETWEEN * wrong.numel()
    if few and value.dtype != torch.bool and float(gap.max()) <= 1:
        return None
    return _worst(name, actual, expected, gap, wrong, torch.zeros_like(gap))


def _worst(
    name: str, actual: Tensor, expected: Tensor, excess: Tensor, wrong: Tensor, allowed: Tensor
) -> Difference:
    """The difference at the element that differs most."""
    flat = int(excess.flatten().argmax())
    where = [int(index) for index in torch.unravel_index(torch.tensor(flat), actual.shape)]
    actual_value, expected_value = (tensor.flatten()[flat].item() for tensor in (actual, expected))
    limit = float(allowed.flatten()[flat])
    total = actual.numel()
    count = f"{int(wrong.sum())} of {total} elements differ, most" if total > 1 else "it differs"
    place = f" at {where}" if where else ""
    text = (
        f"{count}{place}: {actual_value:.6g} instead of {expected_value:.6g} (allowed: {limit:.3g})"
    )
    is_lost = not bool(actual.flatten()[flat].isfinite())
    return Difference(name, text, flat, limit, is_lost)
