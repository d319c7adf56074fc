"""Combine the calls that the workers of pytest-xdist have recorded: one worker checks each distinct call.

Each worker writes its calls to a shared folder and waits for the other living workers. Then all have the
same calls, and each computes its own share. An op is checked only by workers that have called it: there it
is certain to be registered.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.files import write_whole
from ...harvest.calls import SeenCall
from ...harvest.samples import Group, groups_of

FOLDER = "customop_harvest"  # in `workerinput`: the path of the folder
_PAUSE = 0.05  # seconds between two looks into the folder
Shares = Callable[[Group, str], bool]  # (group, id of a sample) -> whether it is checked here


class Exchange:
    """A worker's side of the exchange.

    Args:
        folder: the folder that all workers share.
        worker: the name of this worker.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._worker = worker
        self._write("alive", str(os.getpid()).encode())

    def merged(self, calls: Iterable[SeenCall]) -> tuple[list[SeenCall], Shares]:
        """The calls of all workers, and which of their samples are checked here.

        A worker that replaces a dead one may come after the others have divided the calls. Then it checks
        only the calls that no other worker has recorded.
        """
        own_calls = list(calls)
        if any(self._folder.glob("*.done")):
            groups, _ = groups_of(
                call for worker_calls in self._read().values() for call in worker_calls
            )
            checked = {(group.op.name, name) for group in groups for name in group.samples}
            self._write("calls", pickle.dumps(own_calls))
            return own_calls, lambda group, name: (group.op.name, name) not in checked
        self._write("calls", pickle.dumps(own_calls))
        self._wait()
        calls_by_worker = self._read()
        self._write("done", b"")
        all_calls = [call for name in sorted(calls_by_worker) for call in calls_by_worker[name]]
        return all_calls, _shared_out(_by_op(calls_by_worker), self._worker)

    def leave(self) -> None:
        """Keep the others from waiting: nothing is checked here."""
        self._write("calls", pickle.dumps([]))

    def _wait(self) -> None:
        """Wait until every living worker has written its calls."""
        while True:
            missing = [
                path
                for path in self._folder.glob("*.alive")
                if not path.with_suffix(".calls").exists() and _lives(path)
            ]
            if not missing:
                return
            time.sleep(_PAUSE)

    def _read(self) -> dict[str, list[SeenCall]]:
        return {
            path.stem: pickle.loads(path.read_bytes())
            for path in sorted(self._folder.glob("*.calls"))
        }

    def _write(self, kind: str, content: bytes) -> None:
        write_whole(self._folder / f"{self._worker}.{kind}", content)


def exchange_of(workerinput: Mapping[str, Any]) -> Exchange | None:
    """The exchange of a worker; None outside of a worker, or if the workers share no folder."""
    folder = Path(workerinput.get(FOLDER, ""))
    if FOLDER not in workerinput or not folder.is_dir():
        return None
    return Exchange(folder, str(workerinput["workerid"]))


def _lives(path: Path) -> bool:
    try:
        os.kill(int(path.read_bytes() or b"0"), 0)
    except (OSError, ValueError):
        return False
    return True


def _by_op(calls_by_worker: Mapping[str, Sequence[SeenCall]]) -> dict[str, list[str]]:
    """The workers that have called each op, without its overload."""
    workers: dict[str, list[str]] = {}
    for worker in sorted(calls_by_worker):
        for name in {_base(call.op) for call in calls_by_worker[worker]}:
            workers.setdefault(name, []).append(worker)
    return workers


def _base(op: str) -> str:
    namespace, _, name = op.partition("::")
    return f"{namespace}::{name.partition('.')[0]}"


def _shared_out(workers: Mapping[str, Sequence[str]], worker: str) -> Shares:
    """Share the samples of each op among the workers that have called it."""
    starts = {name: at for at, name in enumerate(sorted(workers))}

    def is_own(group: Group, sample: str) -> bool:
        name = _base(group.op.name)
        at = starts[name] + [*group.samples, sample].index(sample)
        return workers[name][at % len(workers[name])] == worker

    return is_own
