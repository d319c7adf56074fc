"""The inputs of a case in its dtype and in a wider one, as they are and moved by roundings."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.code_names import names_in_code
from ....cases.tensors import in_double, is_differentiable, is_plain, largest_magnitude
from ....findings import skip

# The wider dtype for each. There is none for float64; float8 is a format rather than a precision.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
# The dtype in which cases with a long dim are compared: short sums stand still in no dtype.
HALF = torch.bfloat16
# torch's own functions that add up in the dtype of their result, as an op that calls them does.
_ADD_IN_PLACE = {"index_add", "index_put", "index_reduce", "scatter_add", "scatter_reduce"}
_ONES = {"ones", "ones_like", "new_ones"}  # that an op counts with these functions


class Dtypes(NamedTuple):
    """The dtype of a case and the one it is compared with; the narrower one comes first."""

    narrow: torch.dtype
    wide: torch.dtype

    @property
    def eps(self) -> float:
        """The rounding of the narrower one."""
        return torch.finfo(self.narrow).eps


class Move(NamedTuple):
    """How inputs are moved at random.

    Args:
        share: the largest shift, as a share of each number.
        absolute: whether it is a share of the largest number of the tensor.
        seed: of the shifts.
    """

    share: float
    absolute: bool
    seed: int


def roundings(dtypes: Dtypes, count: int) -> list[Move]:
    """Moves by 2 to 16 roundings of the narrower dtype, in half precision to 8.

    They are relative to each number, or to the largest one.
    """
    largest = 8 if dtypes.narrow.itemsize == 2 else 16
    sizes = [(size, absolute) for size in (largest, 4, 2) for absolute in (False, True)]
    return [Move(sizes[at % 6][0] * dtypes.eps, sizes[at % 6][1], 1000 + at) for at in range(count)]


def dtypes_of(case: Case) -> Dtypes:
    """The one dtype of the floating-point inputs and a wider one; for a long dim, half precision and it.

    Raises:
        CheckSkipped: if there is none.
    """
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    dtypes = {tensor.dtype for tensor in tensors if is_differentiable(tensor.dtype)}
    if len(dtypes) != 1:
        reason = (
            "the floating-point tensors differ in dtype" if dtypes else "no floating-point tensor"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    dtype = dtypes.pop()
    if not all(is_plain(tensor) for tensor in tensors):
        raise skip("nothing-to-check", "an argument is not a dense tensor", unjudged=False)
    if case.kind == "long":
        return _half_of(case, dtype)
    if dtype not in WIDER:
        raise skip("nothing-to-check", f"{dtype} is compared with no other dtype", unjudged=False)
    return Dtypes(dtype, WIDER[dtype])


def _half_of(case: Case, dtype: torch.dtype) -> Dtypes:
    listed = case.placement.listed_dtypes
    if dtype not in (torch.float32, torch.float64) or (listed is not None and HALF not in listed):
        reason = f"a long dim in {dtype}: nothing requires half precision"
        raise skip("nothing-to-check", reason, unjudged=False)
    names = {name.rstrip("_") for name in names_in_code(case.op)}
    if names & _ADD_IN_PLACE and not names & _ONES:
        reason = f"a long dim: torch's own {min(names & _ADD_IN_PLACE)} adds up in this dtype too"
        raise skip("nothing-to-check", reason, unjudged=False)
    return Dtypes(HALF, dtype)


class Point:
    """Numbers that the narrower dtype holds, as inputs in either dtype.

    Args:
        case: the case.
        dtypes: the two dtypes.
        away: the seed by which the numbers differ from those of the case; None: they do not.
        largest: the largest magnitude, to which all numbers are scaled up; None: they stay.

    Raises:
        CheckSkipped: if the device has no such dtype.
    """

    def __init__(
        self, case: Case, dtypes: Dtypes, away: int | None = None, largest: float | None = None
    ) -> None:
        self.factor = 1.0 if largest is None else _factor_to(case, largest)
        self._case = case
        self._dtypes = dtypes
        self._away = away
        try:
            self.arguments(dtypes.wide)
        except (TypeError, RuntimeError) as error:  # MPS tensors have no float64
            raise skip("nothing-to-check", str(error), unjudged=False) from error

    def arguments(self, dtype: torch.dtype, move: Move | None = None) -> Arguments:
        """The numbers in one of the dtypes, moved or not; a tensor that is given twice stays one."""
        streams = [
            torch.Generator().manual_seed(self._case.seed + seed)
            for seed in (self._away or 0, move.seed if move else 0)
        ]

        def cast(name: str, tensor: Tensor) -> Tensor:
            if tensor.dtype not in self._dtypes:
                return tensor
            value = (tensor.detach() * self.factor).to(self._dtypes.narrow)
            if self._away is not None:
                value = _inwards(value.to(self._dtypes.wide), streams[0]).to(self._dtypes.narrow)
            if move is not None:
                value = _moved(value.to(self._dtypes.wide), move, streams[1])
            return value.to(dtype).requires_grad_(tensor.requires_grad)

        return self._case.inputs().map_distinct(cast)


def _factor_to(case: Case, largest: float) -> float:
    """The factor for all numbers; 1 if they are that large already."""
    tensors = [tensor for _, tensor in case.inputs().tensors() if is_differentiable(tensor.dtype)]
    size = max((largest_magnitude(in_double(tensor)) for tensor in tensors), default=0.0)
    return max(1.0, largest / size) if size else 1.0


def _drawn(like: Tensor, stream: torch.Generator) -> Tensor:
    """Random numbers from 0 to 1 in the shape of a tensor."""
    return torch.rand(like.shape, generator=stream, dtype=torch.float64).to(like.device)


def _moved(wide: Tensor, move: Move, stream: torch.Generator) -> Tensor:
    shift = (_drawn(wide, stream) * 2 - 1) * move.share
    size = (largest_magnitude(wide) or 1.0) if move.absolute else wide
    return wide + (shift * size).to(wide.dtype)


def _inwards(wide: Tensor, stream: torch.Generator) -> Tensor:
    """Numbers moved towards their mean and changed by up to 1 %, so that none is at an end of the range."""
    if not wide.numel():
        return wide
    share = 0.05 + 0.25 * _drawn(wide, stream)
    nearer = wide + (share * (wide.mean() - wide)).to(wide.dtype)
    return nearer * (0.99 + 0.02 * _drawn(wide, stream)).to(wide.dtype)
