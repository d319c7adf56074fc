"""Arguments in float64 whose digits beyond float32 do not reach the results.

A result may have more digits than float32, for instance from a product with another number, and still miss
those of a number that was cast on the way. Then it is the same for numbers that float32 rounds to one, and
differs for numbers that are several steps of float32 apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....cases.arguments import Arguments
from ....cases.tensors import readable
from ...values.memory.calls import Leaves, comparable

FAR, NEAR = 16.0, 0.45  # in steps of float32: clearly apart, and rounded to the same number
FEW = 4  # fewer numbers of a result prove nothing
_SHARE = 0.2  # of those that change; a few may be rounded to the same by chance
# Random choices of about a fourth of an argument's numbers: mostly one of those that a result comes from.
DRAWS, PART = 4, 0.25


class Lost(NamedTuple):
    """A result that lacks the digits of an argument."""

    result: str
    argument: str


def lost_digits(
    arguments: Callable[[], Arguments], results: Callable[[Arguments], Leaves]
) -> Lost | None:
    """The first result that lacks the digits of an argument; None without one.

    Args:
        arguments: makes new arguments.
        results: gives the results and gradients of a call; empty if it raises.
    """
    for argument, tensor in arguments().tensors():
        if tensor.dtype != torch.float64 or not tensor.numel():
            continue

        def results_at(way: float, draw: int, name: str = argument) -> dict[str, Any]:
            return dict(results(_moved(arguments(), name, way, draw)))

        first = results_at(0.0, 0)
        moved = [
            [results_at(way, draw) for way in (NEAR, FAR - NEAR, FAR)] for draw in range(DRAWS)
        ]
        for name, leaf in first.items():
            pairs = [
                _changed_and_lost(leaf, *(outputs.get(name) for outputs in draw)) for draw in moved
            ]
            changed, lost = (sum(counts) for counts in zip(*pairs, strict=True))
            if lost >= max(FEW, _SHARE * changed):
                return Lost(name, argument)
    return None


def _moved(arguments: Arguments, name: str, way: float, draw: int) -> Arguments:
    """The arguments with one rounded to float32, about a fourth of it moved by so many float32 steps."""

    def moved(path: str, tensor: Tensor) -> Tensor:
        if path != name:
            return tensor
        narrow = tensor.detach().float()
        gap = narrow.nextafter(torch.full_like(narrow, torch.inf)).double() - narrow.double()
        drawn = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(draw)) < PART
        value = narrow.double() + way * gap * drawn.to(tensor.device)
        return torch.empty_like(tensor).copy_(value).requires_grad_(tensor.requires_grad)

    return arguments.map_distinct(moved)


def _changed_and_lost(start: Any, near: Any, nearly: Any, end: Any) -> tuple[int, int]:
    """How many numbers of a result change by the far move, and how many of these by no near one."""
    values = (start, near, nearly, end)
    if not all(isinstance(value, Tensor) and comparable(value) for value in values):
        return 0, 0
    start, near, nearly, end = (readable(value) for value in values)
    shapes = {value.shape for value in (start, near, nearly, end)}
    if start.dtype != torch.float64 or start.numel() < FEW or len(shapes) > 1:
        return 0, 0
    changed = start.isfinite() & end.isfinite() & (start != end)
    lost = changed & (near == start) & (nearly == end)
    return int(changed.sum()), int(lost.sum())
