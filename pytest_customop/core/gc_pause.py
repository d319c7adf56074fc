"""Pause Python's garbage collector, and make it skip objects that exist already."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Stop the garbage collector inside the block.

    For work that makes many objects and little garbage, such as making items or compiling a function.
    The number of objects starts the collector, which takes 0.1 s each time for torch's objects.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_for_good = False  # in this process, or in the one that it was forked from


def freeze_for_good() -> None:
    """Make the collector skip all present objects for good: for a process that forks others.

    A collection in each fork would write to all of torch's objects, and so copy them.
    """
    global _for_good
    _for_good = True
    gc.freeze()


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Make the collector skip, inside the block, all objects that exist before it.

    A full collection, which also empties the free lists, then takes no time. If objects were frozen
    already, the newly frozen ones stay frozen too.
    """
    keep = _for_good or gc.get_freeze_count()  # counting torch's objects takes 20 ms
    gc.freeze()
    try:
        yield
    finally:
        if not keep:
            gc.unfreeze()
