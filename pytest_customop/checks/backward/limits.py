"""How far gradients may differ by rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...cases.tensors import largest_magnitude

# The share of a tensor's elements that may be added up to one.
_SUMMED = 1 / 16


@dataclass(frozen=True)
class Limits:
    """What the narrowest dtype of the case allows.

    Args:
        share: the allowed error, as a share of the largest magnitude.
        rounding: the relative rounding of one number.
        smallest: the smallest number above 0.
        room: the maximum of the dtypes, relative to the largest number of the case.
        most: a number well below the maximum of the dtypes.
    """

    share: float
    rounding: float
    smallest: float
    room: float
    most: float

    @staticmethod
    def of(dtypes: set[torch.dtype], numbers: Sequence[Tensor]) -> Limits:
        """The limits for these dtypes and numbers.

        A sum of n equal numbers, added one after another, is off by up to n / 2 roundings.
        """
        infos = [torch.finfo(dtype) for dtype in dtypes]
        largest = max(map(largest_magnitude, numbers), default=0.0)
        rounding = max(info.eps for info in infos)
        count = max((tensor.numel() for tensor in numbers), default=0)
        of_sums = _SUMMED * count * min(rounding, torch.finfo(torch.float32).eps)
        return Limits(
            share=min(0.5, max(1e-4, 4 * rounding, of_sums)),
            rounding=rounding,
            smallest=max(info.tiny * info.eps for info in infos),
            room=min(info.max for info in infos) / max(largest, 1.0),
            most=min(info.max for info in infos) / 16,
        )
