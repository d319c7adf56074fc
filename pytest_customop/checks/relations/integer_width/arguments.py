"""The integer tensors that a check fills with other numbers, and which numbers they may have."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ....cases.argument_names import names_positions, names_seed
from ....cases.case import Case
from ....cases.documented_dtypes import has_all_numbers
from ....cases.documented_integers import Range, allows, integer_range
from ....cases.documented_numbers import at_least_zero
from ....cases.tensors import base_name, is_plain
from ....declare.inputs import TensorSpec

# In the order in which they are tried. Some ops take pixels and samples as floating-point numbers alone.
_FLOATS = (torch.float32, torch.float64)
WIDER = {
    torch.uint8: (torch.int64, torch.int32, torch.int16, *_FLOATS),
    torch.int8: (torch.int64, torch.int32, torch.int16, *_FLOATS),
    torch.int16: (torch.int64, torch.int32, *_FLOATS),
    torch.int32: (torch.int64,),
}
_SHOWN = 0.5  # of the range of a dtype: a sample with such a number shows all of them


class Argument(NamedTuple):
    """A tensor of narrow integers.

    Args:
        name: its path.
        dtype: its dtype.
        limits: of the numbers that it may have.
        shown: of those that the sample has; the same as `limits` unless the sample lists its numbers.
    """

    name: str
    dtype: torch.dtype
    limits: Range
    shown: Range


def narrow_arguments(case: Case) -> list[Argument]:
    """The tensors of narrow integers whose names do not suggest positions or seeds."""
    specs = dict(case.sample_tensors())
    arguments = []
    for name, tensor in case.inputs().tensors():
        base = base_name(name)
        if names_positions(base) or names_seed(base) or tensor.dtype not in WIDER:
            continue
        if name in specs and is_plain(tensor) and tensor.numel() > 0:
            arguments.append(_argument(case, name, specs[name], tensor))
    return arguments


def _argument(
    case: Case, name: str, spec: TensorSpec | torch.Tensor, tensor: torch.Tensor
) -> Argument:
    """What is known of one argument: by its docstring, or else by its sample."""
    every, base = _dtype_limits(tensor.dtype), base_name(name)
    described = isinstance(spec, TensorSpec) and spec.values is None
    documented = integer_range(case.op, base)
    if documented is None and at_least_zero(case.op, base):
        documented = Range(0, every.high)
    if documented is not None and allows(documented, tensor) and not described:
        said = Range(max(documented.low, every.low), min(documented.high, every.high))
        return Argument(name, tensor.dtype, said, said)
    has_all = has_all_numbers(case.op, base, 8 * tensor.dtype.itemsize)
    shown = _shown(spec, tensor, has_all)
    return Argument(name, tensor.dtype, shown if described else every, shown)


def _dtype_limits(dtype: torch.dtype) -> Range:
    known = torch.iinfo(dtype)
    return Range(known.min, known.max)


def _shown(spec: TensorSpec | torch.Tensor, tensor: torch.Tensor, has_all: bool) -> Range:
    """The numbers that the sample shows or describes.

    Args:
        spec, tensor: of the sample, and of the case.
        has_all: whether a docstring says how many bits the numbers have. Listed ones then stand for all of
            the dtype, as they do if they are large.
    """
    limits = _dtype_limits(tensor.dtype)
    if isinstance(spec, TensorSpec) and spec.values is None and spec.fill is None:
        low = limits.low if spec.low is None else max(int(spec.low), limits.low)
        high = limits.high if spec.high is None else min(int(spec.high) - 1, limits.high)
        return Range(low, max(low, high))
    low, high = int(tensor.min()), int(tensor.max())
    return limits if has_all or max(high, -low) >= _SHOWN * limits.high else Range(low, high)
