"""Fill fresh memory with known contents, so that elements which a kernel leaves unwritten show.

Under deterministic algorithms torch fills the tensors of `torch.empty`. numpy and C reuse blocks that were
freed shortly before, so blocks of the expected sizes are allocated, filled and freed.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from ....cases.case import Case
from ....cases.tensors import readable


class Filling(NamedTuple):
    """What fresh memory holds.

    Args:
        pattern: the byte in freed blocks, which numpy and C reuse.
        nan: whether torch fills its empty tensors with NaN, or the largest integer.
    """

    pattern: int
    nan: bool


FIRST, SECOND = Filling(0xA5, True), Filling(0x3C, False)
ALL_NAN = Filling(0xFF, True)  # such bytes are NaN in every floating-point dtype

_LARGEST = 1 << 20  # bytes; larger blocks come fresh from the system
_BLOCKS = 8


@contextlib.contextmanager
def fresh_memory_filled(sizes: Iterable[int], filling: Filling, *, device: str) -> Iterator[None]:
    """Fill the memory that is allocated in the block.

    torch's deterministic algorithms are on inside; an op without one only warns.

    Args:
        sizes: the sizes of the blocks, in bytes.
        filling: what it holds.
        device: the device whose memory is filled, in addition to that of the host.
    """
    switch: Any = importlib.import_module("torch.utils.deterministic")
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        switch.fill_uninitialized_memory,
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        switch.fill_uninitialized_memory = False
        for size in sorted(set(sizes)):
            if 0 < size <= _LARGEST:
                _fill_freed(size, filling.pattern, device)
        switch.fill_uninitialized_memory = filling.nan
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        switch.fill_uninitialized_memory = before[2]


def likely_sizes(case: Case) -> set[int]:
    """The sizes in bytes of the memory that an op or its backward may allocate."""
    tensors = [tensor for _, tensor in (*case.eager.outputs, *case.eager.arguments.tensors())]
    return {
        tensor.numel() * width
        for tensor in tensors
        if not tensor.is_nested
        for width in (tensor.element_size(), 4, 8)
    }


def filling_lines(sizes: Iterable[int]) -> str:
    """The lines of a script that define `fill(byte, nan)`, which fills fresh memory from then on."""
    known = "numpy" in sys.modules
    return ("import numpy\n" if known else "") + _FILL_LINES.format(
        sizes=sorted(size for size in sizes if size), numpy=_NUMPY_LINE if known else ""
    )


_FILL_LINES = """
import torch.utils.deterministic

torch.use_deterministic_algorithms(True, warn_only=True)


def fill(byte, nan):
    torch.utils.deterministic.fill_uninitialized_memory = False
    for size in {sizes}:
        [torch.full([size], byte, dtype=torch.uint8) for _ in range(8)]
{numpy}    torch.utils.deterministic.fill_uninitialized_memory = nan
"""
_NUMPY_LINE = """        [numpy.full(size, byte, dtype=numpy.uint8) for _ in range(8)]
"""


def has_new_nan(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether a result has NaN where it had none before."""
    if tensor.shape != before.shape or not before.is_floating_point():
        return False
    return bool((readable(tensor).isnan() & ~readable(before).isnan()).any())


def _fill_freed(size: int, pattern: int, device: str) -> None:
    allocate, free = _heap()
    if allocate is not None:
        blocks = [allocate(size) for _ in range(_BLOCKS)]
        for block in blocks:
            ctypes.memset(block, pattern, size)
        for block in blocks:
            free(block)
    held = [torch.empty(size, dtype=torch.uint8) for _ in range(_BLOCKS)]
    for tensor in held:
        ctypes.memset(tensor.data_ptr(), pattern, size)  # `fill_` would start threads for each
    del held
    if device != "cpu":
        _ = [
            torch.empty(size, dtype=torch.uint8, device=device).fill_(pattern)
            for _ in range(_BLOCKS)
        ]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        _ = [numpy.full(size, pattern, dtype=numpy.uint8) for _ in range(_BLOCKS)]


def _heap() -> tuple[Any, Any]:
    """malloc and free of the process; None where they cannot be found by name."""
    try:
        process = ctypes.CDLL(None)
        allocate, free = process.malloc, process.free
    except (AttributeError, OSError, TypeError):
        return None, None
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.argtypes = [ctypes.c_void_p]
    return allocate, free
