"""Formulas that give the overall slope of a staircase: the op rounds to a grid that it computes itself.

If the grid depends on the input, for instance on its largest element, finite differences within a step are
neither zero nor the slope of the staircase. A straight-through formula gives that slope.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .jacobian import Pair
from .projection import gradient_of, random_weights
from .vectors import CallError, OutputsChanged, VectorFunction

_REACHES = (0.25, 0.5, 1.0)  # of the mean magnitude of the input
_DRAWS = 5
_SHARE = 0.25  # of the formula's size: how far the slope of the staircase may be off
_HALVINGS = 40
_JUMP = 1e-4  # of the change along the whole line: a larger change at one place is a jump


def follows_staircase(function: VectorFunction, pair: Pair, seed: int) -> bool:
    """Whether an output jumps, and the formula gives the slope over distances larger than the jumps."""
    point = function.point[pair.source]
    size = float(point.abs().mean()) if point.numel() else 0.0
    if size == 0.0:
        return False
    try:
        return any(_follows(function, pair, reach * size, seed) for reach in _REACHES)
    except (CallError, OutputsChanged):
        return False


def _follows(function: VectorFunction, pair: Pair, reach: float, seed: int) -> bool:
    point, values = function.point[pair.source], function.outputs[pair.target].values
    generator = torch.Generator().manual_seed(seed)
    for _ in range(_DRAWS):
        direction, weight = (random_weights(tensor, generator) for tensor in (point, values))
        ahead, behind = (
            function.at(pair.source, point + sign * reach * direction)[pair.target]
            for sign in (1, -1)
        )
        along = gradient_of(function, pair.target, weight)[pair.source] * direction
        slope = (ahead - behind) @ weight / (2 * reach)
        if not float((slope - along.sum()).abs()) <= _SHARE * float(along.norm()):
            return False
    return _jumps(function, pair, point, point + reach * direction)


def _jumps(function: VectorFunction, pair: Pair, start: Tensor, end: Tensor) -> bool:
    """Whether the output jumps on a line, which is halved towards the larger change."""
    first, last = (function.at(pair.source, point)[pair.target] for point in (start, end))
    whole = float((last - first).abs().max())
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        between = function.at(pair.source, middle)[pair.target]
        if float((between - first).abs().max()) >= float((last - between).abs().max()):
            end, last = middle, between
        else:
            start, first = middle, between
    return float((last - first).abs().max()) > _JUMP * whole > 0
