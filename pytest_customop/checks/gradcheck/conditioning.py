"""Whether gradients can be compared at a point: roundings of the inputs must not change them."""

from __future__ import annotations

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import readable
from ..values.memory.calls import gradients_of
from ..values.memory.perturb import ROUNDINGS

_SHARE = 1e-3  # of the largest gradient: finite differences are compared as coarsely
_MOVES = 3


def is_ill_conditioned(case: Case) -> bool:
    """Whether inputs moved by some roundings of float64 change a gradient by more than a thousandth.

    There neither finite differences nor a correct formula give reliable digits: the inverse of a nearly
    singular matrix is an example.
    """
    wide = case.widened()
    base = _gradients(wide, wide.inputs())
    for change in ROUNDINGS[:_MOVES]:
        moved = dict(_gradients(wide, change.apply(wide.inputs())))
        if any(_differ(grad, moved.get(name)) for name, grad in base):
            return True
    return False


def _gradients(case: Case, arguments: Arguments) -> list[tuple[str, torch.Tensor]]:
    """(name, gradient) of each argument of a call; empty if the call or its backward raises."""
    run = case.run(arguments)
    grads = None if run.error is not None else gradients_of(case, run, case.grad_outputs)
    return [(name, readable(grad)) for name, grad in grads or ()]


def _differ(left: torch.Tensor, right: torch.Tensor | None) -> bool:
    if right is None or left.shape != right.shape or not left.numel():
        return False
    return bool((left - right).abs().max() > _SHARE * left.abs().max())
