"""The OpenMP runtimes that libraries of this process have loaded."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

_RUNTIME = re.compile(r"/\S*/lib[gi]?omp\d*[-.]\S*\.?so\S*$", re.MULTILINE)  # of GCC, LLVM or Intel


def use_one_thread() -> None:
    """Let parallel regions of this thread run without others, in each runtime that is loaded.

    A fork of a process that has run a parallel region waits forever for the threads of its pool, which
    it does not have. A wheel may bring a runtime of its own, which `torch.set_num_threads` does not know.
    Without effect on a system whose loaded libraries are not listed in `/proc`.
    """
    for runtime in _loaded_runtimes():
        ctypes.CDLL(runtime, mode=os.RTLD_NOLOAD).omp_set_num_threads(1)


def _loaded_runtimes() -> set[str]:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return set()
    return set(_RUNTIME.findall(maps))
