"""Gradients where elements are equal, along directions that keep them equal.

The maximum of equal numbers has a kink: its gradient may go to any one of them, or in parts to all. But if
they grow together, so does the maximum, without a kink. Along such a direction, every subgradient that a
formula may choose gives the slope.
"""

from __future__ import annotations

import torch

from ....cases.tensors import has_repeats
from ....declare.inputs import GradOptions
from ....findings import CheckFailed, fail
from .jacobian import WRONG, Pair, compare
from .projection import Draw, random_weights
from .staircase import follows_staircase
from .vectors import CallError, OutputsChanged, VectorFunction

AT_TIES = "gradient-mismatch-at-ties"


def wrong_at_ties(function: VectorFunction, options: GradOptions, seed: int) -> CheckFailed | None:
    """The finding about a gradient that two such directions show to be wrong; None without one.

    Args:
        function: one with a kink at the point.
        options: step and tolerances.
        seed: of the directions.
    """
    if not any(has_repeats(point) for point in function.point):
        return None
    try:
        first, second = (
            compare(function, _tied_draw(function, seed + at), options) for at in range(2)
        )
    except (CallError, OutputsChanged):
        return None
    for pair, repeated in zip(first, second, strict=True):
        sure = pair.verdict == repeated.verdict == WRONG and not (pair.still or repeated.still)
        if not (sure and pair.same_place(repeated) and has_repeats(function.point[pair.source])):
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


def _finding(function: VectorFunction, pair: Pair) -> CheckFailed:
    source, target = function.inputs[pair.source].name, function.outputs[pair.target].name
    return fail(
        AT_TIES,
        f"the gradient for `{source}` is wrong where elements are equal: the derivative of {target} "
        f"(weighted at random) along a direction that keeps them equal is {pair.formula:.6g} by the "
        f"formula and {pair.numeric:.6g} by finite differences",
    )
