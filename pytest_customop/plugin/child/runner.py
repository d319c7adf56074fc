"""The runner of a child, as the session sees it: a fork that runs items until it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from multiprocessing.connection import Connection
from typing import Any

from .protocol import RunnerEnded


class RunnerProcess:
    """A process that a child has forked, and that the child waits for.

    Args:
        pid: its id.
        connection: the connection to it.
        child: the connection to the child, which reports how it has ended.
    """

    def __init__(
        self, pid: int, connection: Connection[Any, Any], child: Connection[Any, Any]
    ) -> None:
        self.pid = pid
        self.connection = connection
        self._child = child
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        """The exit code, or minus the number of the signal, at its end.

        Raises:
            subprocess.TimeoutExpired: if the child does not report it in time.
        """
        with contextlib.suppress(EOFError, OSError):
            while self._code is None and self._child.poll(timeout):
                message = self._child.recv()
                self._code = message.code if isinstance(message, RunnerEnded) else None
        if self._code is None:
            raise subprocess.TimeoutExpired("the runner of a child", timeout)
        return self._code

    def kill(self, timeout: float) -> bool:
        """Kill it and what it has started; returns whether it has ended in time."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)
        self.connection.close()
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True
