"""Arguments in float64 whose digits beyond float32 do not reach the results.

A result may have digits of its own, as that of a product with another number, and miss those of a number
that was cast on the way. Then it stays where that one changes by less than float32 tells apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ....cases.arguments import Arguments
from ....cases.tensors import readable
from ...values.memory.calls import Leaves, comparable

# Shares of a number: float32 tells it from one that is larger by the first, and not by the second.
TOLD, NOT_TOLD = 2.0**-20, 2.0**-32
EFFECT = 2.0**-30  # as a share of a result: less than that could be lost in float64 too
FEW = 4  # numbers of results that tell nothing
_SHARE = 0.1  # of them; a step that a number happens to cross is rarer
DRAWS = 2  # choices of every second number of an argument, of which a result may need several


class Lost(NamedTuple):
    """A result that does not have the digits of an argument."""

    result: str
    argument: str


def lost_digits(
    arguments: Callable[[], Arguments], results: Callable[[Arguments], Leaves]
) -> Lost | None:
    """The first result that misses the digits of numbers of an argument; None without one.

    Args:
        arguments: gives them anew.
        results: the results and gradients of a call; empty if it raises.
    """
    first = dict(results(arguments()))
    for argument, tensor in arguments().tensors():
        if tensor.dtype != torch.float64 or not tensor.numel():
            continue
        moved = [
            [dict(results(_moved(arguments(), argument, by, draw))) for by in (TOLD, NOT_TOLD)]
            for draw in range(DRAWS)
        ]
        for name, leaf in first.items():
            lost = [_lost(leaf, told.get(name), not_told.get(name)) for told, not_told in moved]
            count = sum(int(one.sum()) for one in lost)
            if count >= max(FEW, _SHARE * sum(one.numel() for one in lost)):
                return Lost(name, argument)
    return None


def _moved(arguments: Arguments, name: str, share: float, draw: int) -> Arguments:
    """The arguments with about every second number of one changed by up to a share of it."""

    def moved(own: str, tensor: Tensor) -> Tensor:
        if own != name:
            return tensor
        shares = torch.linspace(0.5, 1.0, tensor.numel(), dtype=torch.float64)
        shares *= torch.rand(tensor.numel(), generator=torch.Generator().manual_seed(draw)) < 0.5
        value = tensor.detach() * (1 + share * shares.to(tensor.device).view(tensor.shape))
        return value.requires_grad_(tensor.requires_grad)

    return arguments.map_distinct(moved)


def _lost(first: object, told: object, not_told: object) -> Tensor:
    """Where a result changes with the larger change alone; empty if it cannot be told."""
    nowhere = torch.empty(0, dtype=torch.bool)
    found = [one for one in (first, told, not_told) if isinstance(one, Tensor) and comparable(one)]
    if len(found) < 3 or found[0].dtype != torch.float64:
        return nowhere
    before, large, small = (readable(one).flatten() for one in found)
    if not before.shape == large.shape == small.shape:
        return nowhere
    effect = (large - before).abs()
    changed = effect.isfinite() & (effect > EFFECT * before.abs()) & (before != 0)
    return changed & (small == before)
