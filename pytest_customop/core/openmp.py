"""The OpenMP runtimes that libraries of this process have loaded."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path

_RUNTIME = re.compile(r"lib[gi]?omp\d*[-.].*")  # of GCC, LLVM or Intel
_BEFORE_PATH = 5  # fields of a line of `/proc/self/maps`


def use_one_thread() -> None:
    """Let parallel regions of this thread run without others, in each runtime that is loaded.

    A fork of a process that has run a parallel region waits forever for the threads of its pool, which
    it does not have. A wheel may bring a runtime of its own, which `torch.set_num_threads` does not know.
    """
    for runtime in loaded_runtimes():
        with contextlib.suppress(
            OSError, AttributeError
        ):  # a file that was replaced, another library
            ctypes.CDLL(runtime, mode=os.RTLD_NOLOAD).omp_set_num_threads(1)


def loaded_runtimes() -> set[str]:
    """The files of the runtimes; none on a system whose loaded libraries are not listed in `/proc`."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return set()
    paths = {line.split(maxsplit=_BEFORE_PATH)[-1] for line in lines}
    return {path for path in paths if _RUNTIME.match(Path(path).name)}
