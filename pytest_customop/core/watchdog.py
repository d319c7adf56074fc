"""End a call that takes too long or too much memory, from inside of the process."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from .descendants import (
    seconds_in_queue,
    seconds_of_ended,
    seconds_of_running,
    seconds_since_boot,
)
from .process_memory import available, resident

SECONDS = 30.0  # for the calls of an op on one variant
_WAITING = 30.0  # seconds in which a call computes nothing
_SHARE = 0.1  # of its time that a call which waits computes at most
_TICK = 0.2  # seconds between two checks of the clock and of the memory

COMPUTING = "computing"  # the code of an exceeded limit of processor time


class LimitExceeded(BaseException):
    """Raised in the middle of a call. It is not an Exception, so that no handler in an op catches it.

    Args:
        code: of the finding, `hang` or `crash`; or `COMPUTING`.
        text: which limit was exceeded.
        waited: whether the call waited and did not compute, as for a lock that nobody releases.
    """

    def __init__(self, code: str, text: str, *, waited: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.waited = waited


@contextlib.contextmanager
def within_limits(
    seconds: float | None = None, processor_seconds: float = math.inf
) -> Iterator[None]:
    """End the block if it takes too long, or more than half of the free memory.

    Where `is_possible()` is False, nothing ends the block.

    Args:
        seconds: the time limit; None: `SECONDS`.
        processor_seconds: the limit of the time that this process computes.

    Raises:
        LimitExceeded: `hang` for the time, `COMPUTING` for the processor time, `crash` for the memory.
    """
    if not is_possible():
        yield
        return
    seconds = SECONDS if seconds is None else seconds
    end, begun_with = time.monotonic() + seconds, _held()
    computed = time.process_time()
    room: float | None = None

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal room
        computing = time.process_time() - computed
        if computing > processor_seconds:
            text = f"it was still computing after {processor_seconds:g} s of processor time"
            raise LimitExceeded(COMPUTING, text)
        if time.monotonic() > end:
            waited = computing < _SHARE * seconds
            raise LimitExceeded("hang", f"it was still running after {seconds:g} s", waited=waited)
        taken = _held() - begun_with
        if room is None:  # most blocks end before the first check, and this takes a millisecond
            free = available()
            room = math.inf if free is None else (free + taken) / 2
        if taken > room:
            raise LimitExceeded("crash", f"it took more than {room / 2**30:.1f} GB of memory")

    with _timer(_TICK, look):
        yield


@contextlib.contextmanager
def ended_if_waiting() -> Iterator[None]:
    """End the block if it computes nothing for 30 s: it waits for a lock, or for another process.

    What the processes compute that the block starts, such as a compiler, counts as its own. So does the
    time in which the thread could compute and other programs have the processor.
    Where `is_possible()` is False, nothing ends the block.

    Raises:
        LimitExceeded: `hang`.
    """
    if not is_possible():
        yield
        return
    begun, computed = seconds_since_boot(), time.process_time() + seconds_of_ended()
    queued = 0.0  # since the process began, at first: a look at every call would cost too much

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal computed, queued
        before, queued_before = computed, queued
        computed = time.process_time() + seconds_of_ended() + seconds_of_running(begun)
        queued = seconds_in_queue()
        if computed + queued - before - queued_before < _SHARE * _WAITING:
            raise LimitExceeded("hang", f"it computed nothing for {_WAITING:g} s", waited=True)

    with _timer(_WAITING, look):
        yield


@contextlib.contextmanager
def _timer(seconds: float, look: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call a function in the block again and again, each time after so many seconds."""
    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _held() -> int:
    return resident(os.getpid()) or 0


def is_possible() -> bool:
    """Whether a block of Python code can be ended here.

    It can in the main thread, if the system has SIGALRM and no other timer is set.
    """
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
