"""How much memory the child may hold, and how long an item may take."""

from __future__ import annotations

from ...core import watchdog
from ...core.process_memory import available, resident

SECONDS = 300.0  # the default limit for an item in a child process
STARTING = 600.0  # seconds until the child has started, or has collected a file
_LONGER = 10.0  # seconds more than the limit with which a call in Python ends itself
_SHARE = 0.8  # the child's share of the free memory
_GB = 1_000_000_000


def seconds(limit: float | None, *, variant_call: bool = False) -> float | None:
    """The time that an item may take; None: any time.

    Args:
        limit: the limit that the session sets; None: it sets none.
        variant_call: whether it is the time of the op's calls on one variant, which end themselves if
            possible.
    """
    if limit is None:
        return watchdog.SECONDS + _LONGER if variant_call else SECONDS
    return limit or None


def memory(pid: int, limit: float | None, workers: int) -> int | None:
    """The bytes that a process may hold; None for no limit, or if the system does not report memory.

    Args:
        pid: the child's id; the memory that it already holds is added to its share of the free memory.
        limit: gigabytes; 0: no limit.
        workers: how many processes share the free memory.
    """
    if limit is not None:
        return int(limit * _GB) or None
    held, free = resident(pid), available()
    return None if held is None or free is None else held + int(free * _SHARE / workers)
