"""Use a tensor that an author gave by its values as a template for other sizes.

Floating-point values are drawn again in the range of the given ones. Integers and booleans are mostly
positions, counts or masks, which have to fit the other arguments. At other sizes they repeat the given rows
from the first on, or each row several times if they are sorted. Those that count or order something keep
their size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..declare.inputs import TensorSpec
from .arguments import Placement
from .tensors import comparable, has_repeats, is_differentiable, is_plain

_RECORD = 4  # at most as many numbers belong together


def described(tensor: torch.Tensor, placement: Placement) -> TensorSpec | None:
    """The description of a real tensor by its values; None if it is not dense.

    Args:
        placement: of the case; it decides the dtype and requires_grad of real tensors.
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


def is_redrawable(spec: TensorSpec, dtype: torch.dtype, others: frozenset[int]) -> bool:
    """Whether a described tensor can get values at another size.

    Args:
        dtype: of the tensor in its case.
        others: the sizes of the other tensors.
    """
    if spec.values is None or is_differentiable(dtype):
        return True
    values = listed(spec)
    if is_constant_mask(values):
        return True
    return not (
        values.numel() == 0
        or (is_sorted(values) and not _are_sorted_ids(values, others))
        or is_permutation(values)
        or adds_up_to_size(values, others)
    )


def _are_sorted_ids(values: torch.Tensor, others: frozenset[int]) -> bool:
    """Whether sorted numbers give the segment of each row of another tensor, and are not offsets.

    Args:
        others: the sizes of the other tensors.
    """
    if values.dim() != 1 or values.dtype == torch.bool or len(values) not in others:
        return False
    ends = {int(values.max()), len(values) - 1}
    return has_repeats(values) and ends.isdisjoint(others)


def sizes_besides(path: str, shapes: Mapping[str, Sequence[int]]) -> frozenset[int]:
    """The sizes of all tensors but one, by their paths."""
    return frozenset(size for key, shape in shapes.items() if key != path for size in shape)


def adds_up_to_size(values: torch.Tensor, others: frozenset[int]) -> bool:
    """Whether numbers look like lengths of parts of another tensor, or like a mask of its entries.

    Args:
        values: at least one number.
        others: the sizes of the other tensors. One number for each row does not count rows.
    """
    total = int(values.sum())
    return total in others and total != values.numel()


def listed(spec: TensorSpec) -> torch.Tensor:
    """The values that an author listed, on the CPU, in a dtype that torch compares and sorts."""
    return comparable(torch.as_tensor(spec.values).detach().cpu())


def is_constant_mask(values: torch.Tensor) -> bool:
    """Whether booleans, at least one, are all the same, and so can be repeated at any size."""
    return (
        values.dtype == torch.bool
        and values.numel() > 0
        and bool((values == values.flatten()[0]).all())
    )


def is_sorted(values: torch.Tensor) -> bool:
    """Whether the numbers, more than one, never decrease. Complex ones have no order."""
    if values.dtype.is_complex:
        return False
    # Not subtracted: differences of booleans and of unsigned numbers are never below 0.
    flat = values.flatten()
    return values.numel() > 1 and bool((flat[1:] >= flat[:-1]).all())


def is_permutation(values: torch.Tensor) -> bool:
    """Whether the numbers, more than one, are consecutive in some order."""
    count = values.numel()
    if values.dtype == torch.bool or count < 2:
        return False
    lowest = values.min()
    if int(values.max()) - int(lowest) != count - 1:  # in most cases, so that nothing is sorted
        return False
    return bool((values.flatten().sort().values == torch.arange(count) + lowest).all())


def record_size(spec: TensorSpec, dtype: torch.dtype) -> int | None:
    """The size of a dim of listed integers that counts numbers which belong together; None without one.

    A box in `[boxes, 4]` has four, and an edge in `[2, edges]` has two. Such a size does not change.
    """
    if spec.values is None or is_differentiable(dtype) or len(spec.shape) < 2:
        return None
    if spec.shape[-1] <= _RECORD:
        return spec.shape[-1]
    return 2 if spec.shape[0] == 2 else None


def counted_sizes(spec: TensorSpec, dtype: torch.dtype) -> frozenset[int]:
    """The sizes that listed integers may refer to: the end and number of offsets, the sum of lengths.

    Args:
        dtype: of the tensor in its case.
    """
    if spec.values is None or is_differentiable(dtype) or dtype == torch.bool:
        return frozenset()
    values = listed(spec)
    if not values.numel():
        return frozenset()
    most, total = int(values.max()), int(values.sum())
    sizes = {most, most + 1}
    if total != values.numel():  # one number for each row does not count rows
        sizes.add(total)
    if values.dim() == 1 and values[0] == 0 and is_sorted(values):
        sizes.add(len(values) - 1)  # offsets: one row between each and the next
    return frozenset(sizes)


def redrawn(
    spec: TensorSpec, dtype: torch.dtype, shape: tuple[int, ...], others: frozenset[int]
) -> TensorSpec | None:
    """The description at another size; None if it is not `is_redrawable`.

    Args:
        dtype: of the tensor in its case.
        others: the sizes of the other tensors.
    """
    if shape == spec.shape:
        return spec
    if spec.values is None:
        return replace(spec, shape=shape)
    if not is_redrawable(spec, dtype, others):
        return None
    if not is_differentiable(dtype):
        return _rows_taken(spec, dtype, shape)
    low, high = _range(spec, dtype)
    if low is not None and low == high:
        return replace(spec, shape=shape, values=None, fill=low)
    if len(shape) == 1 and low is not None and high is not None and is_sorted(listed(spec)):
        ordered = torch.linspace(low, high, shape[0], dtype=torch.float64)
        return replace(spec, shape=shape, values=ordered)  # boundaries, times, a codebook
    return replace(spec, shape=shape, values=None, low=low, high=high)


def _rows_taken(spec: TensorSpec, dtype: torch.dtype, shape: tuple[int, ...]) -> TensorSpec | None:
    """Listed integers at another size: the given rows again and again, or in order if they are sorted."""
    values, record = listed(spec), record_size(spec, dtype)
    in_order = is_sorted(values)
    if len(shape) > values.dim():  # one more leading dim repeats them all
        return replace(spec, shape=shape, values=values.expand(shape).contiguous())
    if not shape:
        return replace(spec, shape=shape, values=values.flatten()[0])
    if len(shape) < values.dim():
        return None
    for dim, (size, new_size) in enumerate(zip(values.shape, shape, strict=True)):
        if size != new_size:
            if size == record:
                return None
            places = torch.arange(new_size)
            places = places * size // max(new_size, 1) if in_order else places % size
            values = values.index_select(dim, places)
    return replace(spec, shape=shape, values=values)


def _range(spec: TensorSpec, dtype: torch.dtype) -> tuple[float | None, float | None]:
    """The smallest and the largest finite value; (None, None) for complex numbers."""
    if dtype.is_complex:
        return None, None
    values = listed(spec).to(torch.float64)
    finite = values[values.isfinite()]
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
