"""Start a child process, exchange messages with it, watch its memory and time, and kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from ...core.process_memory import resident
from . import exit_causes, limits
from .descriptors import receive_descriptors
from .exit_causes import ProcessExit
from .protocol import DeviceLost, Done, End, Ready, Runner, Start, Stderr
from .runner import RunnerProcess
from .starting import ForkedProcess, ForkServer, Streams, new_interpreter

_TICK = 0.05  # seconds between two looks at the child's memory
_GRACE = 5.0  # seconds that a process may take to end


class Child:
    """A child process that runs items; once it has ended, it is not started again.

    A child that is forked runs no item itself. It forks a runner, and another one when that has ended.

    Args:
        start: describes its session.
        cwd: the folder in which the session was started.
        quiet: whether its standard output is discarded.
        server: the server that forks it; None: it is a new interpreter.

    Raises:
        ProcessExit: if it does not start.
    """

    def __init__(
        self, start: Start, cwd: str, quiet: bool, server: ForkServer | None = None
    ) -> None:
        self.memory: int | None = None  # bytes that it may hold
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- open as long as the child lives
        self._captured: int | None = None
        self._mark = 0
        self._runner: RunnerProcess | None = None
        own_end, child_end = Pipe()
        self._connection: Connection[Any, Any] = own_end
        stdout = os.open(os.devnull, os.O_WRONLY) if quiet else os.dup(1)
        try:
            with child_end:
                streams = Streams(child_end.fileno(), stdout, self._errors.fileno())
                forked = server.fork(cwd, streams) if server is not None else None
                self._process = forked or new_interpreter(cwd, streams)
        finally:
            os.close(stdout)
        try:
            self.send(start)
            while not isinstance(self.receive(limits.STARTING), Ready):
                pass
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The id of the process that runs the items."""
        return self._runner.pid if self._runner is not None else self._process.pid

    @property
    def has_runner(self) -> bool:
        """Whether it has a runner, which answers in its place."""
        return self._runner is not None

    @property
    def alive(self) -> bool:
        """Whether another runner can be started after the exit of one."""
        return not self._connection.closed

    @property
    def _answering(self) -> Connection[Any, Any]:
        return self._runner.connection if self._runner is not None else self._connection

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            ProcessExit: if the child, or its runner, has ended.
        """
        self._mark = os.fstat(self._errors.fileno()).st_size
        try:
            self._answering.send(message)
        except OSError:
            raise self._exit_cause() from None

    def receive(self, seconds: float | None) -> Any:
        """The next message.

        Args:
            seconds: how long to wait; None: for ever.

        Raises:
            ProcessExit: if it ends, holds more memory than it may, or does not answer in time.
        """
        end = time.monotonic() + seconds if seconds is not None else None
        while True:
            message = self._next()
            if message is not None:
                return message
            self._kill_if_over_memory()
            if end is not None and seconds is not None and time.monotonic() > end:
                self._ask_for_stacks()
                raise self._killed(exit_causes.timed_out(seconds, self._stderr()))

    def _next(self) -> Any:
        """The next message; None if none came for the session within a moment."""
        if not wait({self._answering, self._connection}, _TICK):
            if self._process.poll() is not None and not self._connection.poll(0):
                raise self._exit_cause()  # what it has started may still hold the pipe open
            return None
        try:
            if self._runner is None or self._answering.poll(0):
                message = self._answering.recv()
                if isinstance(message, Runner):
                    (descriptor,) = receive_descriptors(self._connection, 1)
                    self._runner = RunnerProcess(
                        message.pid, Connection(descriptor), self._connection
                    )
                    return None
                if isinstance(message, Stderr):
                    self._close_captured()
                    (self._captured,) = receive_descriptors(self._answering, 1)
                if not isinstance(message, DeviceLost):
                    return message
                raise self._killed(exit_causes.device_lost(message, self._stderr()))
        except (EOFError, OSError):
            raise self._exit_cause() from None
        raise self._exit_cause()

    def _kill_if_over_memory(self) -> None:
        if self.memory is None:
            return
        held = resident(self.pid)
        if held is not None and held > self.memory:
            raise self._killed(exit_causes.out_of_memory(self.memory, self._stderr()))

    def _ask_for_stacks(self) -> None:
        """Make the child's faulthandler write all stacks, and wait until it has done so."""
        before = os.fstat(self._errors.fileno()).st_size
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + _GRACE
        while time.monotonic() < end:
            time.sleep(_TICK)
            after = os.fstat(self._errors.fileno()).st_size
            if after == before and b"most recent call first" in self._tail():
                return
            before = after

    def _exit_cause(self) -> ProcessExit:
        """Why the runner, or else the child, has ended by itself."""
        try:
            code = (self._runner or self._process).wait(_GRACE)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        return self._killed(exit_causes.ended_itself(code, self._stderr()))

    def _killed(self, cause: ProcessExit) -> ProcessExit:
        """Kill what is left of the runner, or else of the child, and return the cause."""
        if self._runner is None or not self._runner.kill(_GRACE):
            self.kill()
        self._runner = None
        self._close_captured()
        return cause

    def _close_captured(self) -> None:
        if self._captured is not None:
            os.close(self._captured)
            self._captured = None

    def _tail(self) -> bytes:
        size = os.fstat(self._errors.fileno()).st_size
        start = max(self._mark, size - 100_000)
        return os.pread(self._errors.fileno(), size - start, start)

    def _stderr(self) -> str:
        """Its standard error since the last message to it, captured by pytest or not."""
        captured = b""
        if self._captured is not None:
            size = os.fstat(self._captured).st_size
            captured = os.pread(self._captured, 100_000, max(size - 100_000, 0))
        return "\n".join(
            part.decode(errors="replace").strip() for part in (captured, self._tail()) if part
        )

    def finish(self) -> None:
        """Ask it to tear down what is set up, and to end. This does not wait for it."""
        with contextlib.suppress(OSError):
            self._answering.send(End())

    def end(self) -> None:
        """Wait until it has ended after `finish`, and kill what is left of it."""
        with contextlib.suppress(ProcessExit, subprocess.TimeoutExpired, OSError):
            while not isinstance(self.receive(limits.STARTING), Done):
                pass
            # A thread that an op has started may never end.
            (self._runner or self._process).wait(_GRACE)
            if self._runner is not None:
                self._connection.send(End())
                self._process.wait(_GRACE)
        self.kill()

    def kill(self) -> None:
        """Kill it and every process that it has started. A second call does nothing."""
        if self._connection.closed:
            return
        if self._runner is not None:
            self._runner.kill(0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # it may have no group of its own yet
        self._process.wait()
        if isinstance(self._process, ForkedProcess):
            self._process.close()
        self._connection.close()
        self._errors.close()
        self._close_captured()
