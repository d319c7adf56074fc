"""The child process as the session sees it: started, asked, watched, and killed where it must be."""

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
from .protocol import Done, End, Ready, Start, Stderr

# The child's sys.path first: the package may be found only by way of it.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from pytest_customop.plugin.child.server import main; main(int(sys.argv[1]))"
)
_TICK = 0.05  # seconds between two looks at the child's memory
_DYING = 5.0  # seconds for what ends in a moment


def _flags() -> list[str]:
    """Those of this interpreter that change what a test may see."""
    return ["-" + "O" * sys.flags.optimize] * bool(sys.flags.optimize) + [
        f"-W{option}" for option in sys.warnoptions
    ]


class Child:
    """A child process that runs items; it is not started again once it has died.

    Args:
        start: what its session is made of.
        cwd: the folder in which the session was started.
        quiet: whether what it writes to standard output goes nowhere.

    Raises:
        Died: if it does not come up.
    """

    def __init__(self, start: Start, cwd: str, quiet: bool) -> None:
        self.memory: int | None = None  # bytes that it may hold
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- open as long as the child lives
        self._captured: int | None = None
        self._mark = 0
        ours, theirs = Pipe()
        self._connection: Connection[Any, Any] = ours
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *_flags(),
                    "-c",
                    _BOOT,
                    str(theirs.fileno()),
                    json.dumps(sys.path),
                ],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the session, which tells it what to do
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
        """Ask for something.

        Raises:
            Died: if nobody is there to be asked.
        """
        self._mark = os.fstat(self._errors.fileno()).st_size
        try:
            self._connection.send(message)
        except OSError:
            raise self._died() from None

    def receive(self, seconds: float | None) -> Any:
        """The next message.

        Args:
            seconds: how long to wait; None: for ever.

        Raises:
            Died: if it dies, holds more memory than it may, or does not answer in time.
        """
        end = time.monotonic() + seconds if seconds is not None else None
        while not self._connection.poll(_TICK):
            if self._process.poll() is not None and not self._connection.poll(0):
                raise self._died()  # what it has started may still hold the pipe open
            self._hold_to_memory()
            if end is not None and seconds is not None and time.monotonic() > end:
                self._ask_for_stacks()
                raise self._ended(exit_causes.for_time(seconds, self._stderr()))
        try:
            message = self._connection.recv()
            if isinstance(message, Stderr):
                self._captured = self._receive_descriptor()
        except (EOFError, OSError):
            raise self._died() from None
        return message

    def _receive_descriptor(self) -> int:
        with socket.socket(fileno=os.dup(self._connection.fileno())) as same:
            _, received, _, _ = socket.recv_fds(same, 1, 1)
        return received[0]

    def _hold_to_memory(self) -> None:
        if self.memory is None:
            return
        held = resident(self.pid)
        if held is not None and held > self.memory:
            raise self._ended(exit_causes.for_memory(self.memory, self._stderr()))

    def _ask_for_stacks(self) -> None:
        """Have the child's faulthandler write where it is, and wait until it has."""
        before = os.fstat(self._errors.fileno()).st_size
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        end = time.monotonic() + _DYING
        while time.monotonic() < end:
            time.sleep(_TICK)
            after = os.fstat(self._errors.fileno()).st_size
            if after == before and b"most recent call first" in self._tail():
                return
            before = after

    def _died(self) -> exit_causes.Died:
        try:
            code = self._process.wait(_DYING)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        return self._ended(exit_causes.of_itself(code, self._stderr()))

    def _ended(self, death: exit_causes.Died) -> exit_causes.Died:
        """Whatever is left of it is killed."""
        self.kill()
        return death

    def _tail(self) -> bytes:
        size = os.fstat(self._errors.fileno()).st_size
        start = max(self._mark, size - 100_000)
        return os.pread(self._errors.fileno(), size - start, start)

    def _stderr(self) -> str:
        """What it wrote there since it was asked: captured by pytest, or not."""
        captured = b""
        if self._captured is not None:
            size = os.fstat(self._captured).st_size
            captured = os.pread(self._captured, 100_000, max(size - 100_000, 0))
        return "\n".join(
            part.decode(errors="replace").strip() for part in (captured, self._tail()) if part
        )

    def finish(self) -> None:
        """Ask it to tear down what is set up, and to end; does not wait."""
        with contextlib.suppress(OSError):
            self._connection.send(End())

    def end(self) -> None:
        """Wait until it has; what is left of it then is killed."""
        try:
            while not isinstance(self.receive(limits.STARTING), Done):
                pass
        except exit_causes.Died:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING)  # a thread that an op has started may never end
        self.kill()

    def kill(self) -> None:
        """Kill it at once, and every process that it has started; once."""
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
