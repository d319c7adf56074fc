"""A process that has imported torch and forks children: a child starts in milliseconds, not in seconds.

It imports modules, but runs nothing: no operator of torch, no pytest, no test. So it has no threads of
torch, and a fork of it is as good as a new interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from ...core.forked import fork
from ...core.gc_pause import freeze_for_good
from .descriptors import receive_descriptors
from .protocol import End, Fork, Preload

# The modules that a child imports before its first item, and with it.
MODULES = (
    "torch",
    "torch._dynamo",
    "pytest",
    "pytest_customop.global_state.preserve",
    "pytest_customop.checks",
    "pytest_customop.plan.matrix",
    "pytest_customop.plugin.run_item",
    "pytest_customop.run.engine",
    "pytest_customop.plugin.child.server",
)
# The child may use CUDA. This process must not call the driver, which does not survive a fork.
_ASK_NO_DRIVER = "PYTORCH_NVML_BASED_CUDA_CHECK"


def main(descriptor: int) -> None:
    """Import what `Preload` requests, and fork a child for each `Fork`.

    It ends when the session sends `End`, or closes the connection.
    """
    os.set_inheritable(descriptor, False)
    control: Connection[Any, Any] = Connection(descriptor)
    with contextlib.suppress(EOFError):
        _import(control.recv())
    child = _serve(control)
    if child is not None:
        _end(child)
    os._exit(0)  # freeing all modules takes long


def _import(request: Preload) -> None:
    before, filters = os.environ.get(_ASK_NO_DRIVER), list(warnings.filters)
    os.environ[_ASK_NO_DRIVER] = "1"
    for name in MODULES:
        importlib.import_module(name)
    if request.compiler:
        sys.modules["torch"].compiler.list_backends()  # imports them
    sys.modules["pytest_customop.checks"].builtin_checks()  # imports the families
    if before is None:
        del os.environ[_ASK_NO_DRIVER]
    warnings.filters[:] = filters  # type: ignore[index]
    freeze_for_good()


def _serve(control: Connection[Any, Any]) -> Callable[[], None] | None:
    """Answer the session.

    Returns:
        In a child, what it has to run; None in this process, at the end.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the session
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer)
    running: dict[Connection[Any, Any], int] = {}
    reported: set[int] = set()
    while True:
        sources: list[Any] = [control, reader, *running]
        ready = wait(sources)
        if reader in ready:
            os.read(reader, 4096)
            _report_ended(running, reported)
        for connection in [key for key in running if key in ready]:  # the session is done with it
            pid = running.pop(connection)
            connection.close()
            _reap(pid)
            reported.discard(pid)
        if control not in ready:
            continue
        try:
            request: Fork | End = control.recv()
            if isinstance(request, End):
                raise EOFError
            status, *descriptors = receive_descriptors(control, 4)
        except (EOFError, OSError):
            for pid in running.values():
                _reap(pid)
            return None
        pid = fork()  # the threads of numpy's BLAS survive it: they are started anew
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for connection in (control, *running):
                connection.close()
            for descriptor in (reader, writer, status):
                os.close(descriptor)
            return _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        status_connection: Connection[Any, Any] = Connection(status)
        running[status_connection] = pid
        with contextlib.suppress(OSError):
            status_connection.send(pid)


def _report_ended(running: dict[Connection[Any, Any], int], reported: set[int]) -> None:
    """Send the session how each child has ended. It is not reaped yet: its id stays its own."""
    for connection, pid in running.items():
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or pid in reported:
            continue
        reported.add(pid)
        signaled = ended.si_code != os.CLD_EXITED
        with contextlib.suppress(OSError):
            connection.send(-ended.si_status if signaled else ended.si_status)


def _reap(pid: int) -> None:
    if os.waitpid(pid, os.WNOHANG)[0] == 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(request: Fork, descriptors: list[int]) -> Callable[[], None]:
    """Make this process like a new interpreter that the session has started.

    Args:
        request: the request of the session.
        descriptors: the connection to the session, standard output and standard error.
    """
    os.setsid()  # Ctrl-C is for the session only
    connection, stdout, stderr = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in (stdout, stderr):
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[:] = request.path
    tempfile.tempdir = None  # it depends on the environment
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()

    def run() -> None:
        from .server import main

        main(connection)

    return run


def _end(child: Callable[[], None]) -> None:
    """Run the child, and end it as an interpreter ends, but without freeing the modules."""
    status: Any = 1
    try:
        child()
    except SystemExit as end:
        status = end.code or 0
    except BaseException as error:  # whatever ends a session: an interpreter prints it
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(int(status))
