"""The processor time of the processes that this one has started, and that these have started."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path


def seconds_of_descendants(root: Path = Path("/proc")) -> float:
    """Seconds that they have computed: those that have ended and been waited for, and those that run.

    On a system without `/proc`, only the former.

    Args:
        root: where Linux describes processes.
    """
    of_parent: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for pid, parent, seconds in _processes(root):
        of_parent[parent].append((pid, seconds))
    ended = os.times()
    total, parents = ended.children_user + ended.children_system, [os.getpid()]
    while parents:
        for pid, seconds in of_parent.pop(parents.pop(), ()):
            total += seconds
            parents.append(pid)
    return total


def _processes(root: Path) -> Iterator[tuple[int, int, float]]:
    """(id, id of the parent, seconds): the time includes that of children that it has waited for."""
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for folder in root.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            yield int(folder.name), int(fields[1]), sum(map(int, fields[11:15])) / ticks
