"""The tensors of whole numbers that a check fills with other numbers, and which ones they may have."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ....cases.argument_names import names_positions, names_seed
from ....cases.case import Case
from ....cases.tensors import base_name, is_plain
from ....declare.inputs import TensorSpec
from .fills import Limits

WIDER = {
    torch.uint8: (torch.int64, torch.int32, torch.int16),
    torch.int8: (torch.int64, torch.int32, torch.int16),
    torch.int16: (torch.int64, torch.int32),
    torch.int32: (torch.int64,),
}
_SHOWN = 0.5  # of the range of a dtype: a sample with such a number shows all of them


class Argument(NamedTuple):
    """A tensor of narrow whole numbers.

    Args:
        name: its path.
        dtype: its dtype.
        limits: of the numbers that it may have.
        shown: of those that the sample has; the same where the author says no more.
    """

    name: str
    dtype: torch.dtype
    limits: Limits
    shown: Limits


def narrow_arguments(case: Case) -> list[Argument]:
    """The tensors of narrow whole numbers that stand for numbers, by their names."""
    given = dict(case.sample_tensors())
    found = []
    for name, tensor in case.inputs().tensors():
        base = base_name(name)
        if names_positions(base) or names_seed(base) or tensor.dtype not in WIDER:
            continue
        if name in given and is_plain(tensor) and tensor.numel() > 0:
            shown = _shown(given[name], tensor)
            limits = (
                shown if isinstance(given[name], TensorSpec) and not _listed(given[name]) else None
            )
            found.append(Argument(name, tensor.dtype, limits or _every(tensor.dtype), shown))
    return found


def _listed(given: TensorSpec | torch.Tensor) -> bool:
    return isinstance(given, TensorSpec) and given.values is not None


def _every(dtype: torch.dtype) -> Limits:
    known = torch.iinfo(dtype)
    return Limits(known.min, known.max)


def _shown(given: TensorSpec | torch.Tensor, tensor: torch.Tensor) -> Limits:
    """The numbers that the sample shows or describes: those of the dtype where it has large ones."""
    every = _every(tensor.dtype)
    if isinstance(given, TensorSpec) and given.values is None and given.fill is None:
        low = every.low if given.low is None else max(int(given.low), every.low)
        high = every.high if given.high is None else min(int(given.high) - 1, every.high)
        return Limits(low, max(low, high))
    low, high = int(tensor.min()), int(tensor.max())
    return every if max(high, -low) >= _SHOWN * every.high else Limits(low, high)
