"""One child process for many items: started when one needs it, replaced when it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from ...run.record import ResultRecord, to_wire
from ...settings import Settings
from ..session.state import PLANNED
from . import limits, protocol
from .exit_causes import ProcessExit
from .items import any_compiles, is_isolated, is_on_cpu, names_of
from .process import Child
from .protocol import Collect, Collected, Done, Ended, Phase, Run, Start, VariantEnded
from .starting import FORKS, ForkServer
from .xdist_emulation import workerinput


class NotCollected(Exception):
    """The child does not collect an item that the session has collected."""


class ReusableChild:
    """The child process of a session, and its successors."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._server: ForkServer | None = (
            None  # forks the children; None: they are new interpreters
        )
        self._child: Child | None = None
        self._started = 0
        self._has_called = False  # whether the process has run a variant or an item to its end
        # By file, what this child has collected, and what its next runner would have.
        self._collected: dict[str, Collected] = {}
        self._to_fork: dict[str, Collected] = {}
        self._fatal_files: dict[str, ProcessExit] = {}  # whose import has ended a child
        self._start_failure: ProcessExit | None = None  # why no child starts

    @property
    def _workers(self) -> int:
        """The number of workers of pytest-xdist; 1 without it."""
        workers: int = getattr(self._config, "workerinput", {}).get("workercount", 1)
        return workers

    def prepare(self, items: Sequence[pytest.Item]) -> None:
        """Choose how children start, by the items that they will run, and start the fork server.

        A process that uses a device other than the CPU cannot always be forked, nor be a fork.
        """
        if FORKS and items and all(map(is_on_cpu, items)):
            self._server = ForkServer(any_compiles(items))
            if len(items) >= self._workers:  # else this worker may get none of them
                self._server.start()

    def run(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        finished: Iterable[ResultRecord] = (),
        shows_calls: bool = False,
    ) -> Iterator[Any]:
        """Run an item in the child; yields its messages, up to `Done` or `Ended`.

        Args:
            finished: the records of the item's variants that do not run again.
            shows_calls: as in `protocol.Run`.

        Raises:
            ProcessExit: if the child ends before the item does. The next item gets another child.
            NotCollected: if it has no such item.
        """
        path = str(item.path)
        following = self._following(item, nextitem)
        child, collected = self._child_for(path)
        if names_of(item) not in collected.names:
            raise NotCollected(_why_not_collected(item, collected))
        if child.memory is None:
            child.memory = limits.memory(child.pid, self._settings.memory, self._workers)
        phase, start = protocol.SETUP, time.perf_counter()
        planned = item.stash[PLANNED]
        of_variants = bool(planned.variants) or planned.fuzz is not None
        try:
            done = tuple(to_wire(record) for record in finished)
            child.send(Run(path, names_of(item), item.nodeid, *following, done, shows_calls))
            while True:
                in_call = of_variants and phase in (protocol.DRAW, protocol.EAGER)
                limit = limits.seconds(self._settings.timeout, variant_call=in_call)
                message = child.receive(limit)
                phase = message.name if isinstance(message, Phase) else phase
                self._has_called |= isinstance(message, (VariantEnded, Done))
                yield message
                if isinstance(message, (Done, Ended)):
                    return
        except ProcessExit as ended:
            ended.seconds = time.perf_counter() - start
            raise self._drop_child(ended, phase) from None

    def _following(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """File and names of the next item: the fixtures that it shares with this one stay set up."""
        if nextitem is None or (nextitem.path != item.path and not is_isolated(nextitem)):
            return None, ()
        try:
            self._child_for(str(item.path))
            _, collected = self._child_for(str(nextitem.path))
        except ProcessExit:
            return None, ()  # a new child will run the current item
        names = names_of(nextitem)
        return (str(nextitem.path), names) if names in collected.names else (None, ())

    def _child_for(self, path: str) -> tuple[Child, Collected]:
        """A child that has collected this file."""
        if path in self._fatal_files:
            raise self._fatal_files[path]
        child = self._child or self._start()
        if path not in self._collected:
            try:
                child.send(Collect(path))
                while not isinstance(message := child.receive(limits.STARTING), Collected):
                    pass
            except ProcessExit as ended:
                self._fatal_files[path] = self._drop_child(ended, protocol.COLLECT)
                raise ended from None
            self._collected[path] = message
            if not child.has_runner:
                self._to_fork[path] = message
        return child, self._collected[path]

    def _start(self) -> Child:
        if self._start_failure is not None:
            raise self._start_failure
        self._started += 1
        config = self._config
        args = tuple(str(argument) for argument in config.invocation_params.args)
        forks = self._server is not None
        start = Start(args, self._basetemp(), forks, workerinput(config))
        quiet = config.getoption("capture") != "no"
        try:
            folder = str(config.invocation_params.dir)
            self._child = Child(start, folder, quiet, self._server)
        except ProcessExit as ended:
            self._start_failure = self._drop_child(ended, protocol.START)
            raise ended from None
        return self._child

    def _basetemp(self) -> str | None:
        """A new folder inside the session's own one, for the child; None: pytest chooses one."""
        from ...compat.pytest_private import base_temp

        folder = base_temp(self._config)
        return None if folder is None else str(folder / f"customop-child-{self._started}")

    def _drop_child(self, ended: ProcessExit, phase: str) -> ProcessExit:
        """Forget the part of the child that has ended; the exit gets the phase that it was in."""
        ended.phase, ended.after_calls = phase, self._has_called
        self._has_called = False
        ended.has_successor = self._child is not None and self._child.alive
        if ended.has_successor:
            self._collected = dict(self._to_fork)
        else:
            self._child = None
            self._collected, self._to_fork = {}, {}
        return ended

    def finish(self) -> None:
        """Let the child tear down what is set up, and end. This does not wait for it."""
        if self._child is not None:
            self._child.finish()

    def end(self) -> None:
        """Wait until the child has ended after `finish`; end the fork server."""
        if self._child is not None:
            self._child.end()
            self._child = None
        if self._server is not None:
            self._server.end()

    def kill(self) -> None:
        """Kill the child at once."""
        if self._child is not None:
            self._child.kill()
            self._child = None


def _why_not_collected(item: pytest.Item, collected: Collected) -> str:
    if collected.error:
        return f"the child process cannot collect {item.path}\n\n{collected.error}"
    return (
        f"the child process collects {item.path} and finds no {'::'.join(names_of(item))}: ids must "
        "be the same whenever the file is collected"
    )
