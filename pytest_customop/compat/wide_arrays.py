"""Let numpy compute in int64 what a kernel computes in fewer bits, to see whether something overflows.

In a block, `Tensor.numpy()` returns integers of 8, 16 or 32 bits as arrays that hold int64 and claim the
dtype that they would have. numpy then computes with the wide numbers. What may be meant to wrap is computed
in the dtype that it claims: bits, `%`, unsigned numbers of 16 and 32 bits, casts to fewer bits.

`torch.Tensor.numpy` is public; it is replaced here because nothing else sees which arrays a kernel gets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .wide_array import Watch


@contextlib.contextmanager
def wide_arrays(is_of_author: Callable[[str], bool]) -> Iterator[Watch]:
    """A block in which kernels get arrays that hold int64. What they write to arguments is lost.

    Args:
        is_of_author: (file name) -> whether the file holds the code to point at.
    """
    from .wide_array import WATCHED, Watch, WideArray

    watch = Watch(is_of_author)
    original = torch.Tensor.numpy

    def numpy(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        array = original(self, *args, **kwargs)
        if array.dtype.name not in WATCHED:
            return array
        watch.arrays += 1
        return WideArray.of(array.astype("int64"), array.dtype, watch)

    torch.Tensor.numpy = numpy  # type: ignore[method-assign, assignment]
    try:
        yield watch
    finally:
        torch.Tensor.numpy = original  # type: ignore[method-assign]
