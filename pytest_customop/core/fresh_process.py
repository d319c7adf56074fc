"""Run functions in processes in which no item of the session has run yet.

After collection this process makes a copy of itself, which waits. Each function runs in a copy of that
copy. So caches and buffers that an op fills at its first call are empty, and modules need not be imported
again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import struct
import warnings
from collections.abc import Callable
from typing import Any

from .forked import AVAILABLE, Forked, ForkedError, ForkFailed, run_forked

_LENGTH = struct.Struct("<Q")  # before each message
_SECONDS = 30.0  # that a function may take


class FreshProcess:
    """A waiting copy of this process; see the module.

    Raises:
        ForkFailed: if the system cannot make one.
    """

    def __init__(self) -> None:
        if not AVAILABLE:
            raise ForkFailed("this system has no fork")
        requests, to_copy = os.pipe()
        from_copy, answers = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python 3.12 warns if this process has threads
                pid = os.fork()
        except OSError as error:
            raise ForkFailed(f"this process cannot be forked: {error}") from None
        if pid == 0:
            try:
                if (
                    os.fork() == 0
                ):  # so that the copy is no child of this process, which may wait for any
                    os.close(to_copy)
                    os.close(from_copy)
                    _wait(requests, answers)
            finally:
                os._exit(0)
        os.close(requests)
        os.close(answers)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        self._owner = os.getpid()
        self._to, self._from = to_copy, from_copy

    @property
    def is_usable(self) -> bool:
        """Whether this process made it, and it has not ended."""
        return self._to >= 0 and self._owner == os.getpid()

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors of its pipes."""
        return (self._to, self._from) if self._to >= 0 else ()

    def run(self, function: Callable[..., Any], *args: Any) -> Forked:
        """Call a function of a module in a new process; what it returns is the only message.

        Args:
            function: found by its name in its module, which is imported before.
            args: values that can be pickled.

        Raises:
            ForkFailed: if there is no process to run it.
            ForkedError: if the function raises.
        """
        if not self.is_usable:
            raise ForkFailed("the copy of this process has ended")
        try:
            _send(self._to, (function.__module__, function.__qualname__, args))
            found = _receive(self._from)
        except (OSError, EOFError) as error:
            self.close()
            raise ForkFailed("the copy of this process has ended") from error
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, Forked)
        return found

    def close(self) -> None:
        """Leave the copy, which ends when no process can send it anything."""
        for file in self.files:
            with contextlib.suppress(OSError):
                os.close(file)
        self._to = self._from = -1


_current: FreshProcess | None = None


def start() -> None:
    """Make the copy of this process from which later copies are made; nothing where that is impossible."""
    global _current
    stop()
    with contextlib.suppress(ForkFailed):
        _current = FreshProcess()


def renew() -> None:
    """Make another copy if there was one: for a fork of this process, which cannot use that of another."""
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


def _wait(requests: int, answers: int) -> None:
    """Serve requests until the other process ends."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN if each == signal.SIGINT else signal.SIG_DFL)
    while True:
        try:
            module, name, args = _receive(requests)
        except EOFError:
            return
        _send(answers, _answer(module, name, args))


def _answer(module: str, name: str, args: tuple[Any, ...]) -> Forked | Exception:
    def work(send: Callable[[Any], None]) -> None:
        function = getattr(importlib.import_module(module), name)
        send(function(*args))

    try:
        return run_forked(work, _SECONDS)
    except (ForkFailed, ForkedError) as error:  # raised again by the other process
        return error


def _send(file: int, message: Any) -> None:
    data = pickle.dumps(message)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(file, data) :]


def _receive(file: int) -> Any:
    (size,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    return pickle.loads(_read(file, size))


def _read(file: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = os.read(file, min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return found
