"""Tensors that end, or begin, at a guard page, which may not be touched. Linux and macOS."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass

import torch

from ....cases.tensors import is_plain

AVAILABLE = os.name == "posix"

_READ = 1  # PROT_READ; 0 is PROT_NONE


def can_be_fenced(tensor: torch.Tensor) -> bool:
    """Whether `FencedMemory` can hold the tensor."""
    return is_plain(tensor) and tensor.is_contiguous() and tensor.numel() > 0


@dataclass(frozen=True)
class Fence:
    """Where the page lies, and what is forbidden there.

    Args:
        behind: whether it lies behind the elements; if not, before them.
        readable: whether only writing is forbidden.
    """

    behind: bool
    readable: bool = False


class FencedMemory:
    """Memory for one tensor, with a page beside it.

    The tensor's elements reach exactly up to the page. If the page is behind them, their address is aligned
    to the size of an element, and to no more. The memory is never freed: it is for a process that ends.

    Args:
        tensor: a dense one with elements, on the CPU; its values are copied.
        fence: where the page lies, and what it forbids.
    """

    def __init__(self, tensor: torch.Tensor, fence: Fence) -> None:
        page = mmap.PAGESIZE
        size = tensor.numel() * tensor.itemsize
        pages = -(-size // page) * page
        self._map = mmap.mmap(-1, pages + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._page = start + pages if fence.behind else start
        self._forbidden = 0 if not fence.readable else _READ
        offset = pages - size if fence.behind else page
        self.tensor = torch.frombuffer(
            self._map, dtype=tensor.dtype, count=tensor.numel(), offset=offset
        ).view(tensor.shape)
        with torch.no_grad():
            self.tensor.copy_(tensor.detach())
        self.tensor.requires_grad_(tensor.requires_grad)

    def forbid(self) -> None:
        """Forbid access to the page from now on, or only writes.

        Raises:
            OSError: if the system call fails.
        """
        library = ctypes.CDLL(None, use_errno=True)
        address = ctypes.c_void_p(self._page)
        if library.mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), self._forbidden) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
