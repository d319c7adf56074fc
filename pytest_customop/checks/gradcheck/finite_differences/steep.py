"""Slopes that hold over less than a step, like that of x / max(|x|, 1e-12) at 0: the formula is right.

Such a slope is steeper than the difference quotient. A step that is smaller by the same ratio shows it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....declare.inputs import GradOptions
from .jacobian import Pair
from .projection import Draw, gradient_of
from .vectors import ROUNDING, CallError, OutputsChanged, VectorFunction

_STEEPER = 10.0  # the least ratio of the formula's slope to the difference quotient
_SHARE = 1e-2  # of the slope: how far the difference quotient of the small step may be off


def is_right_closer(
    function: VectorFunction, pair: Pair, draw: Draw | None, options: GradOptions
) -> bool:
    """Whether the formula is right for smaller steps at each place where it differs.

    Args:
        pair: the pair whose formula differs.
        draw: the weights and directions, for a larger function.
    """
    try:
        if draw is not None:
            direction, weight = draw.directions[pair.source], draw.weights[pair.target]
            return _is_right_along(function, pair, direction, weight, options)
        return _is_right_at_elements(function, pair, options)
    except (CallError, OutputsChanged):
        return False


def _is_right_along(
    function: VectorFunction, pair: Pair, direction: Tensor, weight: Tensor, options: GradOptions
) -> bool:
    formula = gradient_of(function, pair.target, weight)[pair.source] @ direction
    numeric = function.slopes(pair.source, direction, options.eps).centre[pair.target] @ weight
    small = _small_step(float(numeric), float(formula), options.eps)
    if small is None:
        return False
    slope = function.slopes(pair.source, direction, small).centre[pair.target]
    size = (function.outputs[pair.target].values * weight).norm()
    return bool(_agree((slope @ weight)[None], formula[None], size[None], small).all())


def _is_right_at_elements(function: VectorFunction, pair: Pair, options: GradOptions) -> bool:
    if pair.jacobians is None or pair.confirmed is None:
        return False
    left = pair.confirmed.clone()
    numeric, formula = pair.jacobians
    values = function.outputs[pair.target].values
    units = torch.eye(left.shape[1]).to(function.point[pair.source])
    while left.any():
        row, column = (int(position) for position in left.nonzero()[0])
        small = _small_step(float(numeric[row, column]), float(formula[row, column]), options.eps)
        if small is None:
            return False
        slope = function.slopes(pair.source, units[column], small).centre[pair.target]
        right = _agree(slope, formula[:, column], values, small)
        if not right[row]:
            return False
        left[:, column] &= ~right
    return True


def _small_step(numeric: float, formula: float, eps: float) -> float | None:
    """A step within which the formula's slope can hold; None if it is not that much steeper."""
    if not abs(formula) < float("inf") or abs(formula) <= _STEEPER * abs(numeric) or not numeric:
        return None
    return eps * abs(numeric / formula) / _STEEPER


def _agree(numeric: Tensor, formula: Tensor, values: Tensor, step: float) -> Tensor:
    """Whether slopes agree, and rounding is small beside them."""
    limit = _SHARE * formula.abs()
    return ((numeric - formula).abs() <= limit) & (8 * ROUNDING * values.abs() / step <= limit)
