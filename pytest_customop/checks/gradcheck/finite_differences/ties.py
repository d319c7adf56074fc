"""Gradients where elements are equal, along directions that keep them equal.

The maximum of equal numbers has a kink: its gradient may go to any one of them, or in parts to all. But if
they grow together, so does the maximum, without a kink. Along such a direction, every subgradient that a
formula may choose gives the slope. This is not so where something else is equal too, such as the distances
from equal numbers to others. So the slope by the formula must also be none of those at nearby points.
"""

from __future__ import annotations

import torch

from ....cases.tensors import has_repeats
from ....declare.inputs import GradOptions
from ....findings import CheckFailed, fail
from .jacobian import WRONG, Pair, compare
from .projection import Draw, gradient_of, random_weights
from .staircase import follows_staircase
from .vectors import CallError, OutputsChanged, VectorFunction

AT_TIES = "gradient-mismatch-at-ties"

_POINTS = 8
_APART = 1e-4  # how far away they are
_SHARE = 1e-3  # of the slopes: by which they may be exceeded


def wrong_at_ties(function: VectorFunction, options: GradOptions, seed: int) -> CheckFailed | None:
    """The finding about a gradient that two such directions show to be wrong; None without one.

    Args:
        function: one with a kink at the point.
        options: step and tolerances.
        seed: of the directions.
    """
    if not any(has_repeats(point) for point in function.point):
        return None
    draws = [_tied_draw(function, seed + at) for at in range(2)]
    try:
        first, second = (compare(function, draw, options) for draw in draws)
    except (CallError, OutputsChanged):
        return None
    for pair, repeated in zip(first, second, strict=True):
        sure = pair.verdict == repeated.verdict == WRONG and not (pair.still or repeated.still)
        if not (sure and pair.same_place(repeated) and has_repeats(function.point[pair.source])):
            continue
        if _is_of_a_branch(function, pair, draws[0], options, seed):
            continue
        if not follows_staircase(function, pair, seed):
            return _finding(function, pair)
    return None


def _tied_draw(function: VectorFunction, seed: int) -> Draw:
    """Random weights, and random directions that are equal where elements of an input are equal."""
    generator = torch.Generator().manual_seed(seed)
    weights = [random_weights(output.values, generator) for output in function.outputs]
    directions = []
    for point in function.point:
        values, places = torch.unique(point, return_inverse=True)
        directions.append(random_weights(values, generator)[places])
    return Draw(weights, directions)


def _is_of_a_branch(
    function: VectorFunction, pair: Pair, draw: Draw, options: GradOptions, seed: int
) -> bool:
    """Whether the slope by the formula lies between slopes at nearby points, where nothing is equal."""
    generator = torch.Generator().manual_seed(seed)
    weight, direction = draw.weights[pair.target], draw.directions[pair.source]
    nearby = []
    for _ in range(_POINTS):
        point = [each + _APART * random_weights(each, generator) for each in function.point]
        try:
            slopes = function.moved(point).slopes(pair.source, direction, options.eps)
        except (CallError, OutputsChanged):
            continue
        nearby.append(weight * slopes.centre[pair.target])
    if not nearby:
        return False
    weighted = torch.stack(nearby)
    formula = gradient_of(function, pair.target, weight)[pair.source] @ direction
    slack = _SHARE * weighted.abs().amax(0).norm()
    return bool(weighted.amin(0).sum() - slack <= formula <= weighted.amax(0).sum() + slack)


def _finding(function: VectorFunction, pair: Pair) -> CheckFailed:
    source, target = function.inputs[pair.source].name, function.outputs[pair.target].name
    return fail(
        AT_TIES,
        f"the gradient for `{source}` is wrong where elements are equal: the derivative of {target} "
        f"(weighted at random) along a direction that keeps them equal is {pair.formula:.6g} by the "
        f"formula and {pair.numeric:.6g} by finite differences",
    )
