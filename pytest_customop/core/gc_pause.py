"""Pause Python's garbage collector, and keep it from what is there already."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Let the garbage collector not run inside the block.

    For work that makes many objects and little garbage, as when items are made or a function is compiled:
    the number of objects starts the collector, which takes 0.1 s each time for what torch has allocated.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_for_good = False  # in this process, or in the one of which it is a fork


def freeze_for_good() -> None:
    """Let the collector never look again at what there is: for a process that forks others.

    Each of them would write to all of torch's objects, and so copy them.
    """
    global _for_good
    _for_good = True
    gc.freeze()


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Let the collector leave alone, inside the block, what there was before it.

    A whole collection, which also empties the free lists, then takes no time. Where objects were frozen
    already, those that are new stay frozen too.
    """
    keep = _for_good or gc.get_freeze_count()  # which counts them: 20 ms for those of torch
    gc.freeze()
    try:
        yield
    finally:
        if not keep:
            gc.unfreeze()
