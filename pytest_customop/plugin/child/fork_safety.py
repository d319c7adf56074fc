"""Whether a fork of this process works like the process itself. Linux only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


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
    return count_threads() <= threads and not _has_called_driver()


# The files by which the drivers of NVIDIA's, AMD's and Intel's GPUs are called, and WSL's.
_DRIVERS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg")


def _has_called_driver() -> bool:
    """Whether this process has called the driver of a GPU. Importing torch only loads it."""
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder's own descriptor is closed by now
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(_DRIVERS):
                return True
    return False
