"""Read how much memory the C library and Python have handed out, and which resources this process holds."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

_PROBE = 1 << 16  # bytes


_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _MallInfo2(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


@functools.cache
def heap_gauge() -> Callable[[], int] | None:
    """A function that returns how many bytes `malloc` has handed out and not got back.

    None on systems without glibc 2.33, and where another allocator is loaded.
    """
    library = ctypes.CDLL(None) if os.name == "posix" else None
    read = getattr(library, "mallinfo2", None)
    if library is None or read is None:
        return None
    read.restype = _MallInfo2

    def used() -> int:
        info = read()
        return int(info.uordblks + info.hblkhd)

    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    before = used()
    block = library.malloc(_PROBE)
    seen = used() - before >= _PROBE
    library.free(block)
    return used if seen else None


def python_objects() -> int:
    """The number of blocks that Python's objects hold, without those in caches of the interpreter.

    Its attribute cache keeps the names that were looked up last, in 4096 slots. A function that makes new
    names, `getattr(module, f"{name}_decoder")`, fills it over hundreds of calls.
    """
    clear = getattr(sys, "_clear_internal_caches", None)  # from Python 3.13 on
    (clear or sys._clear_type_cache)()
    return sys.getallocatedblocks()


def open_files() -> int | None:
    """The number of open files; None where the system has no list of them."""
    return _entries("/dev/fd")


def native_threads() -> int | None:
    """The number of threads, including those without Python; None where the system has no list of them."""
    return _entries("/proc/self/task")


def _entries(folder: str) -> int | None:
    return len(os.listdir(folder)) if Path(folder).is_dir() else None
