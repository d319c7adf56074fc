"""Pause Python's garbage collector."""

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
