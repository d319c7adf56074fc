"""Processor time: of the processes that this one has started, and what this one has waited for it."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_SLACK = 0.1  # the system rounds when a process has started


def seconds_since_boot() -> float:
    """The time by the clock that tells when processes have started; 0.0 on a system without it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if clock is None else time.clock_gettime(clock)


def seconds_in_queue(file: Path = Path("/proc/self/schedstat")) -> float:
    """Seconds that the main thread could compute while other programs had the processor; 0.0 if unknown.

    Args:
        file: where Linux counts them.
    """
    try:
        return int(file.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def seconds_of_ended() -> float:
    """Seconds that children of this process have computed which have ended and been waited for."""
    times = os.times()
    return times.children_user + times.children_system


def seconds_of_running(since: float, root: Path = Path("/proc")) -> float:
    """Seconds that those have computed which run, and have started since a time; 0.0 without `/proc`.

    Args:
        since: the time, as of `seconds_since_boot`.
        root: where Linux describes processes.
    """
    of_parent: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for pid, parent, seconds in _processes(since, root):
        of_parent[parent].append((pid, seconds))
    total, parents = 0.0, [os.getpid()]
    while parents:
        for pid, seconds in of_parent.pop(parents.pop(), ()):
            total += seconds
            parents.append(pid)
    return total


def _processes(since: float, root: Path) -> Iterator[tuple[int, int, float]]:
    """(id, id of the parent, seconds): the time includes that of children that it has waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    for folder in root.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[19]) / ticks >= since - _SLACK:
                yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15])) / ticks
