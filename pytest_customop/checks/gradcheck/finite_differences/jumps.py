"""Outputs that jump within a step, like round(x / 0.001): the formula is right between two jumps.

Far from 0 such a function jumps many times within one step, and the difference quotient is then the slope
of the whole staircase. A much smaller step lies between two jumps.
"""

from __future__ import annotations

import torch

from ....declare.inputs import GradOptions
from .jacobian import Pair
from .vectors import ROUNDING, CallError, OutputsChanged, VectorFunction

_CLOSER = 1e-6  # the smaller step, as a part of the step
_SHARE = 1e-2  # of the formula's slope: how far the quotient of the small step may be off
_CLEAR = 100.0  # roundings of the output: a slope that the small step must show
# Roundings of float32 that a jump exceeds: an op that computes in float32 also has steps.
_JUMP = 100.0


def is_right_between_jumps(function: VectorFunction, pair: Pair, options: GradOptions) -> bool:
    """Whether, in a small function, the formula is right for a smaller step at each place that differs.

    Args:
        pair: the pair whose formula differs.
    """
    if pair.jacobians is None or pair.confirmed is None:
        return False
    numeric, formula = pair.jacobians
    values = function.outputs[pair.target].values
    units = torch.eye(numeric.shape[1]).to(function.point[pair.source])
    small = _CLOSER * options.eps
    try:
        for row, column in pair.confirmed.nonzero().tolist():
            slope, size = float(formula[row, column]), abs(float(values[row]))
            quotient = abs(float(numeric[row, column]))
            is_jump = quotient * options.eps > _JUMP * torch.finfo(torch.float32).eps * size
            is_clear = max(quotient, abs(slope)) * small > _CLEAR * ROUNDING * size
            if not (is_jump and is_clear):
                return False
            closer = function.slopes(pair.source, units[column], small).centre[pair.target]
            if abs(float(closer[row]) - slope) > _SHARE * abs(slope):
                return False
    except (CallError, OutputsChanged):
        return False
    return True
