"""Arguments in float64 whose digits beyond float32 do not reach the results.

A result may have digits of its own, as that of a product with another number, and miss those of a number
that was cast on the way. Then it is the same for numbers that float32 rounds to one, and another one for
those that are some numbers of float32 apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....cases.arguments import Arguments
from ....cases.tensors import readable
from ...values.memory.calls import Leaves, comparable

FAR, NEAR = 16.0, 0.45  # numbers of float32 apart, and what is rounded to the same one
FEW = 4  # numbers of results that tell nothing
_SHARE = 0.2  # of those that change; others may happen to be rounded there themselves
# Choices of every fourth number of an argument, or so: of the numbers that a result comes from, mostly one.
DRAWS, PART = 4, 0.25


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
    """The arguments with one in numbers of float32, about every fourth moved by so many of these."""

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
    """How many numbers of a result change in the end, and how many of them not by a little."""
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
