"""What xdist's controller and its workers tell each other, and what a worker may take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...settings import DURATIONS, NUMBER

if TYPE_CHECKING:
    import pytest

    from .state import Session

_KEY = "customop"


def to_worker(node: Any, session: Session) -> None:
    """Give a worker that is about to start its number, and what it could not read itself."""
    node.workerinput[NUMBER] = session.workers
    session.workers += 1
    node.workerinput[DURATIONS] = dict(session.settings.durations)


def to_controller(session: Session) -> None:
    """Leave what the controller needs of a worker beside its reports."""
    output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
    output[_KEY] = {"wrong": session.wrong_checks(), **session.notes.plain()}


def from_worker(node: Any, session: Session) -> None:
    """Take in what a worker left; nothing of one that died."""
    told: dict[str, Any] = getattr(node, "workeroutput", {}).get(_KEY, {})
    wrong: Iterable[str] = told.pop("wrong", ())
    session.told_by_workers |= set(wrong)
    session.notes.take(told)


@contextlib.contextmanager
def share_of_threads(config: pytest.Config) -> Iterator[None]:
    """Let torch use this worker's share of the threads that it takes by itself; all outside of one.

    Each worker has a thread a core else, and those that wait for work take the others' time. Where
    OMP_NUM_THREADS is set, somebody has decided.
    """
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    if count < 2 or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // count))
    try:
        yield
    finally:
        torch.set_num_threads(before)
