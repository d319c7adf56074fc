"""How much memory the child may hold, and how long an item may take."""

from __future__ import annotations

from ...core import watchdog
from ...core.process_memory import available, resident

SECONDS = 300.0  # that an item may take in a child process by default
STARTING = 600.0  # seconds until the child has started, or has collected a file
_LONGER = 10.0  # than a call of Python that ends itself
_SHARE = 0.8  # of the memory that is free, for the child
_GB = 1_000_000_000


def seconds(limit: float | None, *, variant_call: bool = False) -> float | None:
    """The time that an item may take; None: any time.

    Args:
        limit: that the session sets; None: it sets none.
        variant_call: whether it is the calls of an op on one variant, which end themselves where that is
            possible.
    """
    if limit is None:
        return watchdog.SECONDS + _LONGER if variant_call else SECONDS
    return limit or None


def memory(pid: int, limit: float | None, workers: int) -> int | None:
    """The bytes that a process may hold; None for any number, or where the system does not say.

    Args:
        pid: of the child; what it holds already is added to its share of what is free.
        limit: gigabytes; 0: any number.
        workers: how many processes share what is free.
    """
    if limit is not None:
        return int(limit * _GB) or None
    held, free = resident(pid), available()
    return None if held is None or free is None else held + int(free * _SHARE / workers)
