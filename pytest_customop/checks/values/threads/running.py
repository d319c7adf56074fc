"""Run functions in threads, and report where they are if they do not end."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from ....core.tracebacks import is_of_author


class Hung(Exception):
    """Raised if threads do not end in time, with the frames of the author's code that they are in."""

    def __init__(self, stacks: str) -> None:
        super().__init__()
        self.stacks = stacks


def run(works: Sequence[Callable[[], None]], seconds: float) -> None:
    """Run each function in its own thread, and wait for all.

    Raises:
        Hung: if they do not end in time.
    """
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # it is raised again below, in the thread that waits
            errors.append(error)

    threads = [
        threading.Thread(target=guarded, args=(work,), daemon=True, name=f"customop {number}")
        for number, work in enumerate(works)
    ]
    end = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if errors:
        raise errors[0]
    stuck = [thread for thread in threads if thread.is_alive()]
    if stuck:
        raise Hung("\n".join(_stacks(stuck)))


def _stacks(threads: list[threading.Thread]) -> Iterator[str]:
    """The frames of the author's code that the threads are in."""
    frames = sys._current_frames()
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        kept = [entry for entry in traceback.extract_stack(frame) if is_of_author(entry.filename)]
        if kept:
            yield f"{thread.name} is at\n{''.join(traceback.format_list(kept)).rstrip()}"
