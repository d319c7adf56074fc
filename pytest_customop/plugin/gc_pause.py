"""Pause Python's garbage collector while items are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Let the garbage collector not run inside the block.

    While items are made, objects only grow in number and none is garbage, but their number starts the
    collector, which takes 0.1 s each time for what torch has allocated.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
