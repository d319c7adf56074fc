"""Run a function in a copy of this process, so that a crash or a hang ends only the copy."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import re
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import IO, Any

from .openmp import use_one_thread
from .tracebacks import error_line, is_of_author

AVAILABLE = hasattr(os, "fork") and hasattr(os, "register_at_fork")

Send = Callable[[Any], None]

_LENGTH = struct.Struct("<Q")  # before each message
_KEPT = 100_000  # characters of the output that are kept
_LINES = 20  # lines of a crash that are shown
_FRAME = re.compile(r'  File "(?P<file>.*)", line \d+ in ')  # faulthandler's
_SLICE = 0.05  # seconds between two checks of a copy that sends nothing

_is_shared = False  # whether this process is a copy in which `share_copy` was called


class ForkFailed(Exception):
    """The system could not copy this process."""


class ForkedError(Exception):
    """The function raised in the copy."""


@dataclass(frozen=True)
class Forked:
    """The outcome of a copy.

    Args:
        messages: what it sent, in order.
        signal: the number of the signal that ended it; None if it ended by itself.
        hung: whether it was killed at the time limit.
        output: what it wrote to stdout and stderr, including the traceback of a crash.
    """

    messages: list[Any] = field(default_factory=list)
    signal: int | None = None
    hung: bool = False
    output: str = ""

    @property
    def crash(self) -> str:
        """The output of a crash: messages, and the author's frames of the thread that crashed."""
        kept, current = [], False
        for line in self.output.splitlines():
            if line.startswith(("Current thread", "Thread ")):
                current = line.startswith("Current")
            elif frame := _FRAME.match(line):
                if current and is_of_author(frame["file"]):
                    kept.append(line)
            elif line.strip() and not line.startswith("Extension modules:"):
                kept.append(line)
        return "\n".join(kept[:_LINES])

    @property
    def died(self) -> bool:
        """Whether it was ended by a signal that it caused itself."""
        return self.signal is not None and not self.hung


def run_forked(work: Callable[[Send], None], seconds: float, *, handlers: bool = True) -> Forked:
    """Call a function in a fork of this process, and wait until the fork ends.

    The fork has one thread, the calling one. It starts with the memory of this process, and its changes
    are lost. Its output does not reach the terminal, and it writes no core file.

    Args:
        work: the function. It gets a function that sends a picklable value to this process.
        seconds: after which the fork is killed.
        handlers: whether libraries run the functions that they registered for a fork. Torch's function
            forbids backward in the fork once the process has used autograd on another device, even a fake
            one. OpenBLAS needs its own function.

    Raises:
        ForkFailed: if the system cannot fork in this way.
        ForkedError: if the function raises.
    """
    if not AVAILABLE:
        raise ForkFailed("this system has no fork")
    if _is_shared:
        return _run_here(work)
    with tempfile.TemporaryFile() as output:
        reader, writer = os.pipe()
        try:
            pid = fork() if handlers else _fork_without_handlers()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            raise ForkFailed(f"this process cannot be forked: {error}") from None
        if pid == 0:
            _child(work, reader, writer, output)
        os.close(writer)
        try:
            return _outcome(pid, reader, output, time.monotonic() + seconds)
        finally:
            os.close(reader)


def share_copy() -> None:
    """In a copy: run here what would be run in a copy of it, for good.

    What ends such a run ends the copy with all of them, and none has a time limit of its own.
    """
    global _is_shared
    _is_shared = True


def _run_here(work: Callable[[Send], None]) -> Forked:
    messages: list[Any] = []
    try:
        work(messages.append)
    except BaseException as error:  # as in a copy
        raise ForkedError(error_line(error)) from None
    return Forked(messages)


def run_in_copy(work: Callable[[Send], None], seconds: float) -> Forked | None:
    """As `run_forked`, with the fork handlers; if the copy ends and has sent nothing, again without them.

    None if the system makes no copy, or if each ends and has sent nothing. So `work` should send a first
    message as soon as it is known to work in the copy.

    Raises:
        ForkedError: if the function raises.
    """

    def alone(send: Send) -> None:
        use_one_thread()
        work(send)

    for handlers in (True, False):
        with contextlib.suppress(ForkFailed):
            forked = run_forked(alone, seconds, handlers=handlers)
            if forked.messages or forked.hung:
                return forked
    return None


def fork() -> int:
    """As `os.fork`, without Python 3.12's warning about a process with threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _fork_without_handlers() -> int:
    """As `os.fork`, without the handlers of `pthread_atfork`: `_Fork` of POSIX 2024 (glibc 2.34)."""
    python = ctypes.pythonapi
    try:
        fork = python._Fork
    except AttributeError:
        raise OSError("the C library has no _Fork") from None
    python.PyOS_BeforeFork()
    pid = int(fork())
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("_Fork failed")
    return pid


def _child(work: Callable[[Send], None], reader: int, writer: int, output: IO[bytes]) -> None:
    """Run the function in the fork, and end the fork."""
    status = 1
    try:
        os.close(reader)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        gc.disable()  # so that no finalizer of the parent's objects runs here
        faulthandler.enable(2)
        _leave_no_core_file()

        def send(message: Any) -> None:
            data = pickle.dumps((False, message))
            _write(writer, _LENGTH.pack(len(data)) + data)

        try:
            work(send)
        except BaseException as error:  # it must not reach the caller of `fork`
            data = pickle.dumps((True, error_line(error)))
            _write(writer, _LENGTH.pack(len(data)) + data)
        status = 0
    finally:
        os._exit(status)


def _leave_no_core_file() -> None:
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _outcome(pid: int, reader: int, output: IO[bytes], end: float) -> Forked:
    """Read what the fork sends until it ends."""
    received = bytearray()
    status: int | None = None
    hung = False
    try:
        open_, ended = True, False
        while open_ and not ended:
            ended = status is not None  # what it sent before its end is still to be read
            # Not `select`, which takes no descriptor above 1023: a process may have more files open.
            if wait([reader], 0 if ended else _SLICE):
                data = os.read(reader, 1 << 16)
                received += data
                open_, ended = bool(data), False
            elif time.monotonic() > end:
                hung = True
                break
            if status is None:
                status = _status(pid, os.WNOHANG)
        while status is None and not hung:  # it closed the pipe, and ends now
            status = _status(pid, os.WNOHANG)
            hung = status is None and time.monotonic() > end
            if status is None:
                time.sleep(0.001)
    finally:
        if status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            status = _status(pid, 0)
    died = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
    return Forked(_messages(bytes(received)), died, hung, _text(output))


def _status(pid: int, flags: int) -> int | None:
    """The exit status of the fork; None while it runs."""
    try:
        ended, status = os.waitpid(pid, flags)
    except ChildProcessError:  # someone else waited for it
        return 0
    return status if ended else None


def _messages(received: bytes) -> list[Any]:
    messages = []
    while len(received) >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(received)
        end = _LENGTH.size + size
        if len(received) < end:
            break
        failed, message = pickle.loads(received[_LENGTH.size : end])
        if failed:
            raise ForkedError(message)
        messages.append(message)
        received = received[end:]
    return messages


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(_KEPT).decode(errors="replace").strip()
