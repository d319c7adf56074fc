"""Kinks that no single element shows: where the slopes along two directions do not add up.

The median of equal numbers does not change with any one of them, but its slope along most directions is
not zero. It has no gradient there, and a formula may give the gradient of any branch.
"""

from __future__ import annotations

import torch

from ....declare.inputs import GradOptions
from .projection import random_weights
from .vectors import ROUNDING, CallError, OutputsChanged, VectorFunction

_DRAWS = 3
_SHARE = 1e-2  # of the slopes: how far a smooth function may be off, as it bends by some eps


def has_hidden_kink(
    function: VectorFunction, source: int, target: int, options: GradOptions, seed: int
) -> bool:
    """Whether an output is not differentiable at the point, judged along random directions of one input.

    At such a kink a larger step gives the same slopes; where the output jumps, it gives others.

    Args:
        source, target: the positions of the input and of the output.
    """
    generator = torch.Generator().manual_seed(seed)
    point = function.point[source]
    for _ in range(_DRAWS):
        first, second = (random_weights(point, generator) for _ in range(2))
        try:
            all_slopes = [
                function.slopes(source, direction, options.eps)
                for direction in (first, second, first + second)
            ]
        except (CallError, OutputsChanged):
            return True
        slopes = torch.stack([item.centre[target] for item in all_slopes])
        wide = torch.stack([item.wide[target] for item in all_slopes])
        noise = 64 * ROUNDING * function.outputs[target].values.abs() / options.eps
        limit = _SHARE * slopes.abs().sum(0) + noise
        off = (slopes[0] + slopes[1] - slopes[2]).abs()
        steady = ((slopes - wide).abs() <= limit).all(0)
        if bool(((off > limit) & steady).any()):
            return True
    return False
