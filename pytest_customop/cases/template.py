"""Use a tensor that an author gave by its values as a template for other sizes.

Floating-point values are drawn anew in the range of the given ones. Whole numbers and booleans stay as they
are: these are mostly positions, counts or masks, which have to fit the other arguments.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..declare.inputs import TensorSpec
from .arguments import Placement
from .tensors import is_differentiable, is_plain


def described(tensor: torch.Tensor, placement: Placement) -> TensorSpec | None:
    """A real tensor as a description by its values; None for one that is not dense.

    Args:
        placement: of the case: what becomes of real tensors.
    """
    if not is_plain(tensor):
        return None
    cast = placement.cast_real is not None and is_differentiable(tensor.dtype)
    return TensorSpec(
        tuple(tensor.shape),
        None if cast else tensor.dtype,
        values=tensor.detach(),
        requires_grad=None if placement.switch_real else tensor.requires_grad,
    )


def is_redrawable(spec: TensorSpec, dtype: torch.dtype) -> bool:
    """Whether values can be drawn for a described tensor at another size.

    Args:
        dtype: of the tensor in its case.
    """
    return spec.values is None or is_differentiable(dtype)


def counted_sizes(spec: TensorSpec, dtype: torch.dtype) -> frozenset[int]:
    """The sizes that listed whole numbers may refer to: end and number of offsets, sum of lengths.

    Args:
        dtype: of the tensor in its case.
    """
    if spec.values is None or is_differentiable(dtype) or dtype == torch.bool:
        return frozenset()
    listed = torch.as_tensor(spec.values).detach().cpu()
    if not listed.numel():
        return frozenset()
    most = int(listed.max())
    sizes = {most, most + 1, int(listed.sum())}
    if listed.dim() == 1 and listed[0] == 0 and bool((listed.diff() >= 0).all()):
        sizes.add(len(listed) - 1)  # offsets: one row between each and the next
    return frozenset(sizes)


def redrawn(spec: TensorSpec, dtype: torch.dtype, shape: tuple[int, ...]) -> TensorSpec | None:
    """The description at another size; None where it is not `is_redrawable`.

    Args:
        dtype: of the tensor in its case.
    """
    if shape == spec.shape:
        return spec
    if spec.values is None:
        return replace(spec, shape=shape)
    if not is_redrawable(spec, dtype):
        return None
    low, high = _range(spec, dtype)
    if low is not None and low == high:
        return replace(spec, shape=shape, values=None, fill=low)
    return replace(spec, shape=shape, values=None, low=low, high=high)


def _range(spec: TensorSpec, dtype: torch.dtype) -> tuple[float | None, float | None]:
    """The smallest and the largest finite value; None for both of complex numbers."""
    if dtype.is_complex:
        return None, None
    listed = torch.as_tensor(spec.values).detach().cpu().to(torch.float64)
    finite = listed[listed.isfinite()]
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
