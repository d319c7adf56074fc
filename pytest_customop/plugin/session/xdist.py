"""The data that xdist's controller and workers exchange, and a worker's share of the threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..read_options import SENT, sent_to_workers
from . import baseline

if TYPE_CHECKING:
    import pytest

    from .state import Session

_KEY = "customop"
NUMBER = "customop_number"  # a worker's, from 0, in its `workerinput`


def to_worker(node: Any, session: Session) -> None:
    """Give a worker that is about to start its number, and what it could not read itself."""
    node.workerinput[NUMBER] = session.workers
    session.workers += 1
    node.workerinput[SENT] = sent_to_workers(session.settings)
    if session.baseline is not None:
        node.workerinput[baseline.SENT] = session.baseline.text


def to_controller(session: Session) -> None:
    """Send what the controller needs from a worker, apart from the worker's reports."""
    from ...report.json_file import torch_versions

    session.coverage_facts.look_up(session)
    output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
    output[_KEY] = {
        "errors": session.wrong_names(),
        "versions": torch_versions(),
        "notes": session.omissions.to_dict(),
        "coverage": session.coverage_facts.to_dict(),
        "harvest": session.harvest.to_dict(),
        "baseline": session.baseline.collected.to_dict() if session.baseline else None,
    }


def from_worker(node: Any, session: Session) -> None:
    """Take over what a worker has sent. A worker that died has sent nothing."""
    left: dict[str, Any] | None = getattr(node, "workeroutput", {}).get(_KEY)
    if left is None:
        return
    session.worker_errors |= set(left["errors"])
    session.worker_versions |= {
        name: version for name, version in left["versions"].items() if version
    }
    session.omissions.merge(left["notes"])
    session.coverage_facts.merge(left["coverage"])
    session.harvest.merge(left["harvest"])
    if session.baseline is not None and left["baseline"]:
        session.baseline.collected.merge(left["baseline"])


def worker_count(config: pytest.Config) -> int:
    """The number of workers that divide the items; 1 outside of a worker."""
    return int(getattr(config, "workerinput", {}).get("workercount", 1))


@contextlib.contextmanager
def share_of_threads(config: pytest.Config) -> Iterator[None]:
    """Let torch use this worker's share of its threads; outside of a worker, all of them.

    Otherwise each worker has a thread per core, and threads that wait for work take time from the others.
    OMP_NUM_THREADS takes precedence.
    """
    count = worker_count(config)
    if count < 2 or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    import torch

    from ...core.torch_threads import torch_threads

    with torch_threads(max(1, torch.get_num_threads() // count)):
        yield
