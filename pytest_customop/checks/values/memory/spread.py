"""Tensors whose rows lie billions of elements apart; only the rows take up memory. Linux."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

AVAILABLE = sys.platform == "linux" and sys.maxsize > 2**32

ROWS = 256  # at most so many per tensor: each takes a mapping, and Linux allows 65530 of them
_MOST = 2**45  # bytes of address space for one tensor; a process has 2**47
_PAGE = mmap.PAGESIZE
_UNIT = 4096  # unit of strides, in elements: rows begin at a page, as aligned as allocated memory
_LINE = 64  # bytes that rows next to each other are aligned to
_NOTHING, _READ_WRITE = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE
_NORESERVE = 0x4000  # MAP_NORESERVE
_FAILED = ctypes.c_void_p(-1).value
# Bytes that a call may allocate: one that allocates as many as the rows span raises, and does not exhaust
# the machine.
HEADROOM = 2**31


@dataclass(frozen=True)
class Rows:
    """How the rows of a tensor lie. Rows are its slices along one dim.

    Args:
        dim: the dim.
        stride: from one row to the next, in elements.
    """

    dim: int
    stride: int

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The strides of a tensor of this shape; the elements of a row are next to each other."""
        strides, step = [0] * len(shape), 1
        for dim in reversed(range(len(shape))):
            if dim != self.dim:
                strides[dim], step = step, step * shape[dim]
        strides[self.dim] = self.stride
        return tuple(strides)


def just_below(tensor: torch.Tensor, dim: int) -> Rows | None:
    """Rows whose stride fits into 32 bits, and the last of which begin behind 2**31 elements.

    None if there are too few rows for that, or too many, or if they are too large.
    """
    rows, size = tensor.shape[dim], _row(tensor, dim)
    if not 3 <= rows <= ROWS:
        return None
    stride = min(3 * 2**29, 2**33 // (rows - 1)) // _UNIT * _UNIT
    return Rows(dim, stride) if stride >= 2 * size + 4 * _PAGE else None


def beyond(tensor: torch.Tensor, dim: int) -> Rows | None:
    """Rows with a stride of 2**32 elements, which is 0 in 32 bits. None if the tensor cannot have them."""
    rows = tensor.shape[dim]
    fits = 2 <= rows <= ROWS and rows * 2**32 * tensor.itemsize <= _MOST
    return Rows(dim, 2**32) if fits and _row(tensor, dim) < 2**31 else None


def near(tensor: torch.Tensor, dim: int) -> Rows:
    """Rows next to each other, with some elements between them."""
    line = max(1, _LINE // tensor.itemsize)
    return Rows(dim, (_row(tensor, dim) // line + 2) * line)


def _row(tensor: torch.Tensor, dim: int) -> int:
    return tensor.numel() // tensor.shape[dim]


def spread(tensor: torch.Tensor, rows: Rows, span: Rows) -> torch.Tensor:
    """A copy of a tensor with such rows. Its memory is never freed: it is for a process that ends.

    Between the rows, and from 2**31 elements before the first one to 2**32 behind it, an access to memory
    ends the process. The exception is a page at either end of a row, which holds zeros.

    Args:
        tensor: a dense one with elements, on the CPU.
        rows: where they lie.
        span: rows, possibly others, that determine the size of the storage.

    Raises:
        OSError: if the system has no such memory.
    """
    width, shape = tensor.itemsize, tensor.shape
    storage = _extent(shape, span) * width
    before, behind = 2**31 * width, max(storage, 2**32 * width)
    library = _library()
    size = before + behind + 2 * _PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    start = library.mmap(None, size, _NOTHING, flags, -1, 0)
    if start is None or start == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap failed")
    first = start + before
    for low, high in _touched(first, shape, rows, width):
        if library.mprotect(low, high - low, _READ_WRITE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
    raw = torch.frombuffer((ctypes.c_char * storage).from_address(first), dtype=torch.uint8)
    strides = rows.strides(shape)
    laid = torch.empty(0, dtype=tensor.dtype).set_(raw.untyped_storage(), 0, shape, strides)
    with torch.no_grad():
        laid.copy_(tensor.detach())
    return laid.requires_grad_(tensor.requires_grad)


def reaches_far(tensor: torch.Tensor) -> bool:
    """Whether a tensor has an element whose offset does not fit into 32 bits."""
    if tensor.layout != torch.strided or not tensor.numel():
        return False
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((size - 1) * stride for size, stride in pairs) >= 2**31


def _extent(shape: Sequence[int], rows: Rows) -> int:
    """The number of elements from the first to the last one, both included."""
    strides = rows.strides(shape)
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _touched(first: int, shape: Sequence[int], rows: Rows, width: int) -> Iterator[tuple[int, int]]:
    """The (start, end) addresses of the pages that hold rows, with one more page at either end."""
    size = _extent(shape, Rows(rows.dim, 0)) * width
    step = rows.stride * width
    count = shape[rows.dim]
    if step < size + 4 * _PAGE:  # one piece
        size, count = size + (count - 1) * step, 1
    for row in range(count):
        low = (first + row * step) // _PAGE * _PAGE
        yield low - _PAGE, -(-(first + row * step + size) // _PAGE) * _PAGE + _PAGE


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    word, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = [ctypes.c_void_p, word, number, number, number, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, word, number]
    return library
