"""A copy of this process from before the first call of a tested op, for the checks that need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..checks.compile.opaque import call_an_op
from ..core import fresh_process
from ..global_state.preserve import preserved_state
from ..plan.items import PlannedItem


def needs_fresh_process(planned: Iterable[PlannedItem]) -> bool:
    """Whether a check among those that run calls the op in new processes."""
    return any(
        item.skip is None and item.check is not None and item.check.fresh_process
        for item in planned
    )


def start() -> None:
    """Make the copy, after a call of an op of this package: torch imports much at the first call."""
    with preserved_state():
        call_an_op()
    fresh_process.start()


@contextmanager
def fresh_process_for(planned: Iterable[PlannedItem]) -> Iterator[None]:
    """Provide the copy inside a block, if an item needs it and there is none yet."""
    is_needed = fresh_process.current() is None and needs_fresh_process(planned)
    if is_needed:
        start()
    try:
        yield
    finally:
        if is_needed:
            fresh_process.stop()
