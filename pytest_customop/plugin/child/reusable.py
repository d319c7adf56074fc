"""A child that is there when an item needs it: started once, used again, replaced when it dies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ...settings import Settings
from . import is_isolated, limits, names_of, protocol
from .exit_causes import Died
from .process import Child
from .protocol import Collect, Collected, Phase, Run, Start
from .xdist_emulation import workerinput


class NotThere(Exception):
    """The child does not collect an item that the session has collected."""


class WarmChild:
    """The child of a session, whichever it is at the moment."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._child: Child | None = None
        self._started = 0
        self._collected: dict[str, Collected] = {}  # of this child
        self._deadly: dict[str, Died] = {}  # the files at which a child died
        self._never: Died | None = None  # why no child starts

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
        """What the child tells of an item, up to `Done` or `Ended`.

        Raises:
            Died: if it dies of it. The next item gets another one.
            NotThere: if it has no such item.
        """
        path = str(item.path)
        following = self._following(item, nextitem)
        child, collected = self._with(path)
        if names_of(item) not in collected.names:
            raise NotThere(_why_not_there(item, collected))
        if child.memory is None:
            workers = getattr(self._config, "workerinput", {}).get("workercount", 1)
            child.memory = limits.memory(child.pid, self._settings.memory, workers)
        phase, start = protocol.SETUP, time.perf_counter()
        try:
            child.send(Run(path, names_of(item), item.nodeid, *following))
            while True:
                message = child.receive(limits.seconds(self._settings.timeout))
                phase = message.name if isinstance(message, Phase) else phase
                yield message
                if isinstance(message, (protocol.Done, protocol.Ended)):
                    return
        except Died as death:
            death.seconds = time.perf_counter() - start
            raise self._lost(death, phase) from None

    def _following(self, item: pytest.Item, nextitem: pytest.Item | None) -> tuple[Any, ...]:
        """File and names of the next item, for which what it shares with this one stays set up."""
        if nextitem is None or (nextitem.path != item.path and not is_isolated(nextitem)):
            return ()
        try:
            self._with(str(item.path))
            _, collected = self._with(str(nextitem.path))
        except Died:
            return ()  # the item at hand has a child of its own coming
        names = names_of(nextitem)
        return (str(nextitem.path), names) if names in collected.names else ()

    def _with(self, path: str) -> tuple[Child, Collected]:
        """A child that has collected this file."""
        if path in self._deadly:
            raise self._deadly[path]
        child = self._child or self._start()
        if path not in self._collected:
            try:
                child.send(Collect(path))
                while not isinstance(message := child.receive(limits.STARTING), Collected):
                    pass
            except Died as death:
                self._deadly[path] = self._lost(death, protocol.COLLECT)
                raise self._deadly[path] from None
            self._collected[path] = message
        return child, self._collected[path]

    def _start(self) -> Child:
        if self._never is not None:
            raise self._never
        self._started += 1
        config = self._config
        args = tuple(str(one) for one in config.invocation_params.args)
        start = Start(args, self._basetemp(), workerinput(config))
        quiet = config.getoption("capture") != "no"
        try:
            self._child = Child(start, str(config.invocation_params.dir), quiet)
        except Died as death:
            self._never = self._lost(death, protocol.START)
            raise self._never from None
        return self._child

    def _basetemp(self) -> str | None:
        """A folder inside the session's own, which is not to be emptied under its feet."""
        factory = getattr(self._config, "_tmp_path_factory", None)
        if factory is None:
            return None
        return str(Path(factory.getbasetemp()) / f"customop-child-{self._started}")

    def _lost(self, death: Died, phase: str) -> Died:
        death.phase = phase
        self._child = None
        self._collected = {}
        return death

    def finish(self) -> None:
        """Let the child tear down what is set up, and end; does not wait for it."""
        if self._child is not None:
            self._child.finish()

    def end(self) -> None:
        """Wait for the end of a child that was told to; it is dead afterwards."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def kill(self) -> None:
        """Kill the child at once."""
        if self._child is not None:
            self._child.kill()
            self._child = None


def _why_not_there(item: pytest.Item, collected: Collected) -> str:
    if collected.error:
        return f"the child process cannot collect {item.path}\n\n{collected.error}"
    return (
        f"the child process collects {item.path} and finds no {'::'.join(names_of(item))}: ids must "
        "be the same whenever the file is collected"
    )
