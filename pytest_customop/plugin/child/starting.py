"""Start the process of a child: a fork of one that has imported torch, or a new interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from .descriptors import send_descriptors
from .protocol import End, Fork, Preload

_GRACE = 5.0  # seconds that the server may take to end

# Forking a process that has loaded the system's own libraries is safe on Linux, and not on macOS.
FORKS = sys.platform == "linux"

# sys.path first: the package may be found only with it.
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from pytest_customop.plugin.child.{module} import main; main(int(sys.argv[1]))"
)


@dataclass(frozen=True)
class Streams:
    """The file descriptors that a child gets: its end of the connection, standard output and error."""

    connection: int
    stdout: int
    stderr: int


def new_interpreter(cwd: str, streams: Streams) -> subprocess.Popen[bytes]:
    """A child that imports everything itself."""
    return _interpreter("server", streams.connection, cwd, streams.stdout, streams.stderr)


def _interpreter(
    module: str, descriptor: int, cwd: str, stdout: int, stderr: int
) -> subprocess.Popen[bytes]:
    """A process of this interpreter that runs the `main` of a module of this folder."""
    program = [_BOOT.format(module=module), str(descriptor), json.dumps(sys.path)]
    return subprocess.Popen(
        [sys.executable, *_flags(), "-c", *program],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        pass_fds=[descriptor],
        start_new_session=True,  # Ctrl-C is for the session only
    )


def _flags() -> list[str]:
    """The flags of this interpreter that change what a test sees."""
    return ["-" + "O" * sys.flags.optimize] * bool(sys.flags.optimize) + [
        f"-W{option}" for option in sys.warnoptions
    ]


class ForkServer:
    """The process that has imported torch and forks children.

    Args:
        compiler: whether it imports the compiler too.
    """

    def __init__(self, compiler: bool) -> None:
        self._compiler = compiler
        self._control: Connection[Any, Any] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._has_forked = False  # if so, it answers at once; before, it may still be importing

    def start(self) -> None:
        """Start it, if it does not run. It imports torch while this process goes on."""
        if self._process is not None:
            return
        self._control, other_end = Pipe()
        nowhere = subprocess.DEVNULL
        with other_end:
            self._process = _interpreter(
                "preloaded", other_end.fileno(), os.getcwd(), nowhere, nowhere
            )
        with contextlib.suppress(OSError):  # it has ended: `fork` finds out
            self._control.send(Preload(self._compiler))

    def fork(self, cwd: str, streams: Streams) -> ForkedProcess | None:
        """A child; None if the server cannot make one, and has ended."""
        self.start()
        assert self._control is not None
        status, other_end = Pipe()
        with other_end:
            try:
                self._control.send(Fork(cwd, dict(os.environ), tuple(sys.path)))
                descriptors = (streams.connection, streams.stdout, streams.stderr)
                send_descriptors(self._control, [other_end.fileno(), *descriptors])
                other_end.close()
                forked = ForkedProcess(status, status.recv())
            except (EOFError, OSError):
                status.close()
                self.end()
                return None
        self._has_forked = True
        return forked

    def end(self) -> None:
        """End it."""
        if self._control is not None and self._process is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                self._control.send(End())
            self._control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE if self._has_forked else 0)
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


class ForkedProcess:
    """A process that the server has forked. It stays a zombie until `close`, so its id is not reused."""

    def __init__(self, status: Connection[Any, Any], pid: int) -> None:
        self._status = status
        self._code: int | None = None
        self.pid = pid

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal; None while it runs."""
        if self._code is None and self._status.poll(0):
            self._code = self._received()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """The same, after its end; raises `subprocess.TimeoutExpired` if it does not end in time."""
        if self._code is None:
            if not self._status.poll(timeout):
                raise subprocess.TimeoutExpired("a forked child", timeout or 0.0)
            self._code = self._received()
        return self._code

    def _received(self) -> int:
        try:
            code: int = self._status.recv()
        except (EOFError, OSError):  # the server has gone
            code = -signal.SIGKILL
        return code

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let the server forget it."""
        self._status.close()
