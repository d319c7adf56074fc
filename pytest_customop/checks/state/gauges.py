"""Gauges of what a process holds, and of its growth with calls: memory, open files, threads."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...core.gc_pause import frozen, gc_paused
from ...core.heap import heap_gauge, native_threads, open_files, python_objects

MEMORY, RESOURCE = "memory-leaked", "resource-leaked"

_WINDOWS = 3
_TRIES = 3  # readings of what grows, but unevenly
_TRY_SECONDS = 4.0  # of processor time, after which no further reading starts
_NOISE = 10  # a leak is at least so many times the growth without the op
_TYPES = 5  # types of objects that are listed


@dataclass(frozen=True)
class Gauge:
    """Something that calls may leave behind.

    Args:
        name, singular: what is counted, for a message: `bytes of the C heap`, `byte of the C heap`.
        code: the code of the finding.
        read: returns the current amount.
        least: the smallest amount per call that counts as a leak.
        slack: by how much windows may differ, beyond a quarter.
    """

    name: str
    singular: str
    code: str
    read: Callable[[], int | None]
    least: float
    slack: int = 0

    def amount(self, growth: list[int], calls: int) -> str:
        """What a call leaves behind, for a message."""
        number = round(min(growth) / calls)
        return f"{number} {self.singular if number == 1 else self.name}"

    def leaks(self, growth: list[int], calls: int) -> bool:
        """Whether the amount grew evenly in all windows of so many calls."""
        smallest, largest = min(growth), max(growth)
        return smallest >= self.least * calls and largest <= 1.25 * smallest + self.slack

    def may_leak(self, growth: list[int], calls: int) -> bool:
        """Whether it grew in most windows, even if unevenly: other threads allocate and free, too."""
        return sorted(growth)[_WINDOWS // 2] >= self.least * calls


def leaking(
    gauges: list[Gauge], call: Callable[[], object], calls: int
) -> list[tuple[Gauge, list[int]]]:
    """The gauges that grow evenly in each window of so many calls, with their growth."""
    leaks: list[tuple[Gauge, list[int]]] = []
    end = time.process_time() + _TRY_SECONDS
    for _ in range(_TRIES):
        read = [*zip(gauges, _grown(gauges, call, calls), strict=True)]
        leaks += [(gauge, grown) for gauge, grown in read if gauge.leaks(grown, calls)]
        grew = [gauge for gauge, _ in leaks]
        gauges = [
            gauge for gauge, grown in read if gauge not in grew and gauge.may_leak(grown, calls)
        ]
        if not gauges or time.process_time() > end:
            break
    return leaks


def above_noise(gauges: list[Gauge], idle: Callable[[], object], calls: int) -> list[Gauge]:
    """The gauges, with `least` well above what grows without calls of the op.

    Args:
        idle: a function that does not call the op, such as the one that makes its arguments.
    """
    noise = {gauge.name: max(grown) / calls for gauge, grown in leaking(gauges, idle, calls)}
    return [
        replace(gauge, least=max(gauge.least, _NOISE * noise.get(gauge.name, 0)))
        for gauge in gauges
    ]


def _grown(gauges: list[Gauge], call: Callable[[], object], calls: int) -> list[list[int]]:
    """By gauge, the growth in each window of so many calls."""
    readings: list[list[int]] = [[0] * (_WINDOWS + 1) for _ in gauges]
    for window in range(_WINDOWS + 1):
        if window:
            for _ in range(calls):
                call()
        gc.collect()
        for gauge, reading in zip(gauges, readings, strict=True):
            reading[window] = gauge.read() or 0
    return [
        [after - before for before, after in itertools.pairwise(reading)] for reading in readings
    ]


def all_gauges() -> list[Gauge]:
    """The gauges that this system supports."""
    heap = heap_gauge()
    gauges = [
        Gauge("Python objects", "Python object", MEMORY, python_objects, 1, slack=2),
        Gauge("open files", "open file", RESOURCE, open_files, 0.5),
        Gauge("threads", "thread", RESOURCE, native_threads, 0.5),
    ]
    if heap is not None:
        gauges.insert(
            0, Gauge("bytes of the C heap", "byte of the C heap", MEMORY, heap, 16, slack=4096)
        )
    return gauges


def types_of_objects(call: Callable[[], object], calls: int) -> list[str]:
    """The types that have more objects after each call, as evidence."""
    before = _count()
    for _ in range(calls):
        call()
    gc.collect()
    new = _count() - before
    listed = [f"{number} {name}" for name, number in new.most_common(_TYPES) if number >= calls]
    return [f"Python objects after {calls} more calls: {', '.join(listed)}"] if listed else []


def _count() -> Counter[str]:
    return Counter(
        f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
        for item in gc.get_objects()
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard what the op prints and logs, so that no capture keeps it, and pause garbage collection."""
    disabled = logging.root.manager.disable
    sink = _Sink()
    logging.disable(sys.maxsize)
    try:
        with (
            gc_paused(),
            frozen(),
            contextlib.redirect_stdout(sink),
            contextlib.redirect_stderr(sink),
        ):
            yield
    finally:
        logging.disable(disabled)


class _Sink(io.TextIOBase):
    """A file that forgets what is written to it."""

    def write(self, text: str) -> int:
        return len(text)
