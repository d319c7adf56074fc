"""What xdist's controller and its workers tell each other. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .settings import DURATIONS, NUMBER

if TYPE_CHECKING:
    from .session import Session

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
