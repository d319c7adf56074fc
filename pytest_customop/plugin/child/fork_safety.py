"""Whether a fork of this process works like the process itself. Linux only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def count_threads() -> int:
    """How many threads this process has, including those of libraries."""
    return len(os.listdir("/proc/self/task"))


@contextlib.contextmanager
def one_thread_of_torch() -> Iterator[None]:
    """Run a block in one thread of torch: a fork would lose the threads of its pool.

    If the block sets the number of threads itself, that number stays.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch.get_num_threads() == 1:
            torch.set_num_threads(before)


def may_fork(threads: int) -> bool:
    """Whether nothing here is lost in a fork: the threads of a pool, or the driver of a GPU.

    Args:
        threads: the number of threads that a fork can do without.
    """
    if count_threads() > threads:
        return False
    with contextlib.suppress(OSError):
        return "libcuda.so" not in Path("/proc/self/maps").read_text(encoding="utf-8")
    return False
