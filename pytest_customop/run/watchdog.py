"""A call that may not end, or take all memory, ended from inside the process where that can be done."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from ..core.process_memory import available, resident

SECONDS = 30.0  # of one call of an op on arguments as small as a sample's
_TICK = 0.2


class LimitExceeded(BaseException):
    """Raised in the middle of a call; no `except Exception` of an op catches it.

    Args:
        code: of the finding that it is.
        text: what was exceeded.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@contextlib.contextmanager
def time_limited() -> Iterator[None]:
    """End the block if it takes too long, or more than half of the memory that is free.

    Only Python code can be ended so, in the main thread, where there is SIGALRM and nobody else uses
    it. Elsewhere the block runs as it would without.

    Raises:
        LimitExceeded: `hang` or `crash`.
    """
    if not _possible():
        yield
        return
    end, free = time.monotonic() + SECONDS, available()
    room = math.inf if free is None else free / 2
    limit = (resident(os.getpid()) or 0) + room

    def look(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > end:
            raise LimitExceeded("hang", f"it was still running after {SECONDS:g} s")
        if (resident(os.getpid()) or 0) > limit:
            raise LimitExceeded("crash", f"it took more than {room / 2**30:.1f} GB of memory")

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
