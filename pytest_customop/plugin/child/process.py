"""Start a child process, exchange messages with it, watch its memory and time, and kill it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, Pipe
from typing import Any

from ...core.process_memory import resident
from . import exit_causes, limits
from .exit_causes import ProcessExit
from .protocol import Done, End, Ready, Start, Stderr

# The child's sys.path first: the package may be found only by way of it.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from pytest_customop.plugin.child.server import main; main(int(sys.argv[1]))"
)
_TICK = 0.05  # seconds between two looks at the child's memory
_GRACE = 5.0  # seconds in which a process that is ending should be gone


def _flags() -> list[str]:
    """The flags of this interpreter that change what a test sees."""
    return ["-" + "O" * sys.flags.optimize] * bool(sys.flags.optimize) + [
        f"-W{option}" for option in sys.warnoptions
    ]


class Child:
    """A child process that runs items; once it has ended, it is not started again.

    Args:
        start: what its session is made of.
        cwd: the folder in which the session was started.
        quiet: whether what it writes to standard output goes nowhere.

    Raises:
        ProcessExit: if it does not start.
    """

    def __init__(self, start: Start, cwd: str, quiet: bool) -> None:
        self.memory: int | None = None  # bytes that it may hold
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- open as long as the child lives
        self._captured: int | None = None
        self._mark = 0
        own_end, child_end = Pipe()
        self._connection: Connection[Any, Any] = own_end
        with child_end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *_flags(),
                    "-c",
                    _BOOT,
                    str(child_end.fileno()),
                    json.dumps(sys.path),
                ],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=self._errors,
                pass_fds=[child_end.fileno()],
                start_new_session=True,  # Ctrl-C is for the session only
            )
        try:
            self.send(start)
            while not isinstance(self.receive(limits.STARTING), Ready):
                pass
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            ProcessExit: if the child has ended.
        """
        self._mark = os.fstat(self._errors.fileno()).st_size
        try:
            self._connection.send(message)
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
        while not self._connection.poll(_TICK):
            if self._process.poll() is not None and not self._connection.poll(0):
                raise self._exit_cause()  # what it has started may still hold the pipe open
            self._kill_if_over_memory()
            if end is not None and seconds is not None and time.monotonic() > end:
                self._ask_for_stacks()
                raise self._killed(exit_causes.timed_out(seconds, self._stderr()))
        try:
            message = self._connection.recv()
            if isinstance(message, Stderr):
                self._captured = self._receive_descriptor()
        except (EOFError, OSError):
            raise self._exit_cause() from None
        return message

    def _receive_descriptor(self) -> int:
        """The file descriptor that follows a `Stderr`; EOFError if the child ends before it sends it."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as same:
            _, received, _, _ = socket.recv_fds(same, 1, 1)
        if not received:
            raise EOFError
        return received[0]

    def _kill_if_over_memory(self) -> None:
        if self.memory is None:
            return
        held = resident(self.pid)
        if held is not None and held > self.memory:
            raise self._killed(exit_causes.out_of_memory(self.memory, self._stderr()))

    def _ask_for_stacks(self) -> None:
        """Have the child's faulthandler write all stacks, and wait until it has."""
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
        """Why the child has ended by itself."""
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        return self._killed(exit_causes.ended_itself(code, self._stderr()))

    def _killed(self, cause: ProcessExit) -> ProcessExit:
        """Kill what is left of the child, and return the cause."""
        self.kill()
        return cause

    def _tail(self) -> bytes:
        size = os.fstat(self._errors.fileno()).st_size
        start = max(self._mark, size - 100_000)
        return os.pread(self._errors.fileno(), size - start, start)

    def _stderr(self) -> str:
        """What it has written there since the last message to it: captured by pytest, or not."""
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
            self._connection.send(End())

    def end(self) -> None:
        """Wait until it has ended after `finish`, and kill what is left of it."""
        try:
            while not isinstance(self.receive(limits.STARTING), Done):
                pass
        except ProcessExit:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)  # a thread that an op has started may never end
        self.kill()

    def kill(self) -> None:
        """Kill it and every process that it has started. A second call does nothing."""
        if self._connection.closed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._errors.close()
        if self._captured is not None:
            os.close(self._captured)
            self._captured = None
