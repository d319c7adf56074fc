"""The vocabulary of memory layouts: names, descriptions, strides. Imports torch only in `lay_out`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import torch

Layout = Literal[
    "contiguous", "transposed", "strided", "row_padded", "offset", "expanded", "channels_last"
]
LAYOUTS: tuple[str, ...] = get_args(Layout)  # the values of `layouts=`


@dataclass(frozen=True)
class Place:
    """Where the elements of a tensor lie in their own storage; all numbers count elements."""

    strides: list[int]
    offset: int
    size: int

    def put(self, dense: torch.Tensor, home: torch.Tensor) -> torch.Tensor:
        """Write values into one-dimensional memory and return the tensor that lies there.

        A dim of stride 0 gets the values of its first slice.
        """
        laid = target = home.as_strided(dense.shape, self.strides, self.offset)
        for dim, stride in enumerate(self.strides):
            if stride == 0:
                target, dense = target.narrow(dim, 0, 1), dense.narrow(dim, 0, 1)
        target.copy_(dense)
        return laid


@dataclass(frozen=True)
class MemoryLayout:
    """One way to arrange the elements of a dense tensor in memory.

    Args:
        name: as in `layouts=`, in test ids and in tables.
        description: a phrase for messages that follows the tensor: "x transposed in memory".
        strides: (shape, padding) -> strides, in elements; contiguous ones where the layout is not defined
            for a shape.
        padded: whether the strides depend on the padding, which also follows the last row.
        offset: whether there is memory before the first element and after the last.
    """

    name: str
    description: str
    strides: Callable[[Sequence[int], int], list[int]]
    padded: bool = False
    offset: bool = False

    def changes(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape in this layout differs from a contiguous one."""
        if 0 in shape:
            return False
        strides = zip(shape, self.strides(shape, 1), dense_strides(shape), strict=True)
        return self.offset or any(size > 1 and stride != dense for size, stride, dense in strides)

    def repeats(self, shape: Sequence[int]) -> bool:
        """Whether several elements of a tensor of this shape share one element in memory."""
        return any(
            size > 1 and not stride
            for size, stride in zip(shape, self.strides(shape, 1), strict=True)
        )

    def place(
        self, shape: Sequence[int], *, padding: int = 3, margin: int = 1, room: bool = False
    ) -> Place:
        """Where the elements of a tensor of this shape lie.

        Args:
            shape: without a 0.
            padding: the elements after a padded row.
            margin: the elements before and after the others, in a layout with an offset.
            room: whether the storage has room for all elements of the shape: code that treats an
                expanded tensor as a contiguous one then stays inside.
        """
        strides = self.strides(shape, padding)
        reach = zip(shape, strides, strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in reach)
        least = math.prod(shape) if room else 0
        around = margin if self.offset else 0
        size = max(extent, least) + 2 * around + (padding if self.padded else 0)
        return Place(strides, around, size)


def dense_strides(shape: Sequence[int]) -> list[int]:
    """The strides of contiguous memory."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return strides


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of dense memory with its dims in this order, outermost first."""
    strides = [0] * len(shape)
    for dim, stride in zip(order, dense_strides([shape[dim] for dim in order]), strict=True):
        strides[dim] = stride
    return strides


def expanded_strides(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    """The strides of contiguous memory, but 0 for these dims."""
    return [0 if dim in dims else stride for dim, stride in enumerate(dense_strides(shape))]


def fitted_strides(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Strides for a shape: these, or dense ones in the same order where elements would overlap.

    A stride of 0 repeats elements on purpose, and stays.
    """
    if len(shape) != len(strides):
        return dense_strides(shape)
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    least = 1
    for dim in reversed(order):
        if strides[dim] and shape[dim] > 1:
            if strides[dim] < least:
                repeated = [dim for dim, stride in enumerate(strides) if not stride]
                once = [1 if dim in repeated else size for dim, size in enumerate(shape)]
                dense = strides_in_order(once, order)
                return [0 if dim in repeated else stride for dim, stride in enumerate(dense)]
            least = strides[dim] * (shape[dim] - 1) + least
    return list(strides)


def _transposed(shape: Sequence[int], padding: int) -> list[int]:
    dims = [*range(len(shape))]
    return strides_in_order(shape, [*dims[:-2], *reversed(dims[-2:])])


def _channels_last(shape: Sequence[int], padding: int) -> list[int]:
    if len(shape) not in (4, 5):
        return dense_strides(shape)
    return strides_in_order(shape, [0, *range(2, len(shape)), 1])


def _strided(shape: Sequence[int], padding: int) -> list[int]:
    return [2 * stride for stride in dense_strides(shape)]


def _row_padded(shape: Sequence[int], padding: int) -> list[int]:
    return dense_strides([*shape[:-1], *(size + padding for size in shape[-1:])])


def _contiguous(shape: Sequence[int], padding: int) -> list[int]:
    return dense_strides(shape)


CONTIGUOUS = MemoryLayout("contiguous", "contiguous in memory", _contiguous)
TRANSPOSED = MemoryLayout("transposed", "transposed in memory", _transposed)
STRIDED = MemoryLayout("strided", "at every second element of memory", _strided)
ROW_PADDED = MemoryLayout("row_padded", "with padded rows", _row_padded, padded=True)
OFFSET = MemoryLayout("offset", "at a storage offset", _contiguous, offset=True)
EXPANDED = MemoryLayout(
    "expanded",
    "expanded over its first dim",
    lambda shape, padding: expanded_strides(shape, [0]),
)
CHANNELS_LAST = MemoryLayout("channels_last", "in channels_last memory", _channels_last)

# Phrases like `description`, for the bits with which torch delays a computation.
CONJUGATED = "with the conjugate bit set"
NEGATED = "with the negative bit set"

_ALL = (CONTIGUOUS, TRANSPOSED, STRIDED, ROW_PADDED, OFFSET, EXPANDED, CHANNELS_LAST)
_BY_NAME = {layout.name: layout for layout in _ALL}


def layout_named(name: str) -> MemoryLayout:
    """The layout of this name, one of `LAYOUTS`."""
    return _BY_NAME[name]


def strided(dense: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The values of a dense tensor at these strides, after `fitted_strides`."""
    shape = tuple(dense.shape)
    fitted = fitted_strides(shape, strides)
    if 0 in shape or fitted == dense_strides(shape):
        return dense
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, fitted, strict=True))
    return Place(fitted, 0, extent).put(dense, dense.new_zeros(extent))


def lay_out(dense: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of a dense tensor in the layout of this name.

    Where the layout makes a difference, the result has its own storage: `transposed` has the last two
    dims swapped in memory, `strided` uses every second element, `row_padded` has a gap after each row,
    `offset` starts inside its storage, `expanded` repeats the first slice of dim 0 with stride 0 (so its
    values change), `channels_last` is torch's memory format. Otherwise the tensor itself is returned.
    """
    shape = tuple(dense.shape)
    if not layout_named(layout).changes(shape):
        return dense
    place = layout_named(layout).place(shape)
    if place.size <= dense.numel():
        # Every element of this memory is written to. Quantized tensors have a clone, and no zeros.
        return place.put(dense, dense.flatten()[: place.size].clone())
    return place.put(dense, dense.new_zeros(place.size))
