"""Run functions in processes in which no item of the session has run yet.

After collection this process makes a copy of itself, which waits. Each function runs in a copy of that
copy. So caches and buffers that an op fills at its first call are empty, and modules need not be imported
again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

from .forked import AVAILABLE, Forked, ForkedError, ForkFailed, fork, run_forked

_SECONDS = 30.0  # the time limit of a function


class FreshProcess:
    """A waiting copy of this process; see the module.

    Raises:
        ForkFailed: if the system cannot make one.
    """

    def __init__(self) -> None:
        if not AVAILABLE:
            raise ForkFailed("this system has no fork")
        self._owner = os.getpid()
        self._connection, other_end = Pipe()
        with other_end:
            try:
                pid = fork()
            except OSError as error:
                self._connection.close()
                raise ForkFailed(f"this process cannot be forked: {error}") from None
            if pid == 0:
                self._become_copy(other_end)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def _become_copy(self, connection: Connection[Any, Any]) -> None:
        """Fork again, and end this process.

        So the copy is not a child of the session, which may wait for any child.
        """
        try:
            if fork() == 0:
                self._connection.close()
                _serve(connection)
        finally:
            os._exit(0)

    @property
    def is_usable(self) -> bool:
        """Whether this process made the copy and is still connected to it."""
        return not self._connection.closed and self._owner == os.getpid()

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors that this process has open for it."""
        return () if self._connection.closed else (self._connection.fileno(),)

    def run(self, function: Callable[..., Any], *args: Any) -> Forked:
        """Call a module-level function in a new process; its result is the only message.

        Args:
            function, args: values that can be pickled.

        Raises:
            ForkFailed: if there is no process to run it.
            ForkedError: if the function raises.
        """
        if not self.is_usable:
            raise ForkFailed("the copy of this process has ended")
        call = pickle.dumps((function, args))  # a Connection's own pickler shares tensors
        try:
            self._connection.send_bytes(call)
            reply = pickle.loads(self._connection.recv_bytes())
        except (OSError, EOFError) as error:
            self.close()
            raise ForkFailed("the copy of this process has ended") from error
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, Forked)
        return reply

    def close(self) -> None:
        """Disconnect from the copy, which ends when no process can send to it any more."""
        self._connection.close()


_current: FreshProcess | None = None


def start() -> None:
    """Make the copy of this process from which later copies are made, where the system can fork."""
    global _current
    stop()
    with contextlib.suppress(ForkFailed):
        _current = FreshProcess()


def renew() -> None:
    """Make another copy if there was one: a fork of this process cannot use its parent's copy."""
    if _current is not None:
        start()


def stop() -> None:
    """End the copy."""
    global _current
    if _current is not None:
        _current.close()
    _current = None


def current() -> FreshProcess | None:
    """The copy of this process from before the first item; None where there is none."""
    return _current if _current is not None and _current.is_usable else None


def _serve(connection: Connection[Any, Any]) -> None:
    """Make each requested call, until no process can request one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the session
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send_bytes(pickle.dumps(_answer(connection.recv_bytes())))


def _answer(call: bytes) -> Forked | Exception:
    def work(send: Callable[[Any], None]) -> None:
        function, args = pickle.loads(call)
        send(function(*args))

    try:
        return run_forked(work, _SECONDS)
    except (ForkFailed, ForkedError) as error:  # raised again by the other process
        return error
