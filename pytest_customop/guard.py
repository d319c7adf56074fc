"""A call that may not end, or take all memory, ended from inside the process where that can be done."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SECONDS = 30.0  # of one call of an op on arguments as small as a sample's
_TICK = 0.2
_STATM = Path("/proc/self/statm")
_MEMINFO = Path("/proc/meminfo")


class Overrun(BaseException):
    """Raised in the middle of a call; no `except Exception` of an op catches it.

    Args:
        code: of the finding that it is.
        text: what was exceeded.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@contextlib.contextmanager
def guarded(seconds: float | None = None) -> Iterator[None]:
    """End the block if it takes too long, or more than half of the memory that is free.

    Only Python code can be ended so, in the main thread, where there is SIGALRM and nobody else uses
    it. Elsewhere the block runs as it would without.

    Args:
        seconds: that it may take; None: `SECONDS`.

    Raises:
        Overrun: `hang` or `crash`.
    """
    if not _possible():
        yield
        return
    seconds = SECONDS if seconds is None else seconds
    room = _free() / 2
    end, limit = time.monotonic() + seconds, _resident() + room

    def look(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > end:
            raise Overrun("hang", f"it was still running after {seconds:g} s")
        if _resident() > limit:
            raise Overrun("crash", f"it took more than {room / 2**30:.1f} GB of memory")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _possible() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )


def _resident() -> float:
    """Bytes of memory that the process holds; 0 where that is not to be known."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _free() -> float:
    """Bytes of memory that are free; endless where that is not to be known."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return float("inf")
    kilobytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return 1024.0 * int(kilobytes)
