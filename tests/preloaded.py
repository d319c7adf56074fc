"""Start Python processes that have torch imported already: a server forks one for each.

Importing torch and its compiler takes four seconds of processor time, and the tests start several hundred
processes: pytest, the workers of xdist, the plugin's own children. `Popen` stands in for
`subprocess.Popen`. It gives commands of this interpreter (`-c`, `-m`, or a script) to the server, and
starts everything else as usual. The server is started with the first command, and ends with this
process. Processes that it forks use the same server.

Such a process differs from one that is started as usual in this: what `MODULES` names is imported, and
its parent is the server. Options and environment variables that matter before or while these modules
are imported make a new interpreter. `pytest --real-processes` has no server.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import inspect
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

MODULES = ("torch", "torch._dynamo", "torch._inductor.compile_fx", "numpy", "pytest", "execnet")
AVAILABLE = sys.platform == "linux"

# The path of the server's socket, for the processes that it forks.
ADDRESS = "PRELOADED_ADDRESS"
# Variables that are read before or while the modules are imported, and the exceptions.
_EARLY = (
    "PYTHON",
    "TORCH",
    "PYTORCH",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "LD_",
    "COV_",
)
_LATE = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONUNBUFFERED", "TORCHINDUCTOR_CACHE_DIR")
_LENGTH = struct.Struct("!I")
_RealPopen = subprocess.Popen


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for which a process must be a new one."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_EARLY) and name not in _LATE
    }


@dataclass
class Program:
    """What an interpreter was asked to run.

    Args:
        kind: `-c`, `-m` or `script`.
        what: the source, the module or the path.
        arguments: those of the program.
        warnings: the values of `-W`.
    """

    kind: str
    what: str
    arguments: list[str]
    warnings: list[str]


def parse(command: Any) -> Optional[Program]:
    """The program of a command of this interpreter; None for any other, and for other options."""
    if not isinstance(command, (list, tuple)) or not command or command[0] != sys.executable:
        return None
    rest = [os.fspath(argument) for argument in command[1:]]
    if not all(isinstance(argument, str) for argument in rest):
        return None
    options: list[str] = []
    while rest:
        word = rest.pop(0)
        if word[:2] in ("-c", "-m", "-W"):
            if not (value := word[2:] or (rest.pop(0) if rest else "")):
                return None
            if word[1] != "W":
                return Program(word[:2], value, rest, options)
            options.append(value)
        elif not word.startswith("-"):
            return Program("script", word, rest, options)
        elif word != "-u":
            return None
    return None


# The side of the process that starts others


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, with torch imported where it starts this interpreter."""

    _connection: Optional[socket.socket] = None

    def _execute_child(self, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(_RealPopen._execute_child).bind(self, *args, **kwargs)
        arguments = bound.arguments
        request = _request(arguments)
        server = _address(request["environment"]) if request is not None else None
        if request is None or server is None:
            super()._execute_child(*args, **kwargs)
            return
        streams = [
            number if arguments[name] == -1 else arguments[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        passed = list(arguments["pass_fds"])
        request["passed"] = passed
        request["environment"][ADDRESS] = server
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(server)
        _send(self._connection, request, [*streams, *passed])
        self.pid = _receive(self._connection)[0]["pid"]
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(arguments[name] for name in pipes))

    def _internal_poll(self, *args: Any, **kwargs: Any) -> Optional[int]:
        if self._connection is None:
            return super()._internal_poll(*args, **kwargs)
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self._try_wait(os.WNOHANG)[0]:
                    self._handle_exitstatus(self._status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._connection is None:
            return super()._try_wait(wait_flags)
        if self._connection.fileno() != -1:
            if not select.select([self._connection], [], [], 0 if wait_flags else None)[0]:
                return 0, 0
            self._status = _receive(self._connection)[0]["status"]
            self._connection.close()
        return self.pid, self._status


def _request(arguments: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """What to tell the server; None if it cannot start such a process."""
    program = parse(arguments["args"])
    names = ("preexec_fn", "gid", "gids", "uid", "shell")
    plain = not any(arguments.get(name) for name in names) and arguments.get("umask", -1) < 0
    if program is None or not plain or arguments["executable"] not in (None, sys.executable):
        return None
    environment = dict(os.environ if arguments["env"] is None else arguments["env"])
    return {
        "program": vars(program),
        "cwd": os.fspath(arguments["cwd"]) if arguments["cwd"] else os.getcwd(),
        "environment": environment,
        "new_session": arguments["start_new_session"],
    }


class Server:
    """The server, as the process sees it that has started it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="preloaded-")
        self.address = str(Path(self._folder.name, "socket"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.address)
        listener.listen(32)
        early = _early(os.environ)
        Path(f"{self.address}.json").write_text(json.dumps(early), encoding="utf-8")
        with listener:
            self.process = _RealPopen(
                [sys.executable, __file__, str(listener.fileno())],
                stdin=subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name not in _LATE},
                pass_fds=[listener.fileno()],
            )

    def end(self) -> None:
        """Have it end."""
        self.process.communicate()
        self._folder.cleanup()


_started: Optional[Server] = None


def _address(environment: Mapping[str, str]) -> Optional[str]:
    """The address of the server, which is started where it must be.

    Returns:
        None where the process has to be a new one, for its environment.
    """
    global _started
    address = os.environ.get(ADDRESS)
    if address is None:
        _started = _started or Server()
        address = _started.address
    same = json.loads(Path(f"{address}.json").read_text(encoding="utf-8"))
    return address if _early(environment) == same else None


@contextlib.contextmanager
def installed() -> Any:
    """Inside, `subprocess.Popen` is `Popen`."""
    global _started
    subprocess.Popen = Popen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = _RealPopen  # type: ignore[misc]
        if _started is not None:
            _started.end()
            _started = None


@contextlib.contextmanager
def removed() -> Any:
    """Inside, processes are started as usual."""
    before, subprocess.Popen = subprocess.Popen, _RealPopen  # type: ignore[misc]
    address = os.environ.pop(ADDRESS, None)
    try:
        yield
    finally:
        subprocess.Popen = before  # type: ignore[misc]
        if address is not None:
            os.environ[ADDRESS] = address


def _send(connection: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    data = json.dumps(message).encode()
    socket.send_fds(connection, [_LENGTH.pack(len(data))], list(descriptors))
    connection.sendall(data)


def _receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """A message and the descriptors that came with it.

    Raises:
        EOFError: if the other side has gone.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 64)
    if not head:
        raise EOFError("the server of processes has gone")
    size, data = _LENGTH.unpack(head)[0], b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return json.loads(data), descriptors


# The server


def _serve(listener: socket.socket) -> Optional[Program]:
    """Fork a process for each request.

    Returns:
        In such a process, the program to run; None in the server, at its end.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those that it has started
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([0, reader, listener], [], [])
        if 0 in ready:  # nothing is ever written there
            return None
        if reader in ready:
            os.read(reader, 4096)
            _report_ended(running)
        if listener in ready:
            connection, _ = listener.accept()
            request, descriptors = _receive(connection)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for handle in (listener, connection, *running.values()):
                    handle.close()
                os.close(reader)
                os.close(writer)
                return _become(request, descriptors)
            for handle in descriptors:
                os.close(handle)
            running[pid] = connection
            _send(connection, {"pid": pid})


def _report_ended(running: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with running.pop(ended[0]) as connection, contextlib.suppress(OSError):
                _send(connection, {"status": ended[1]})


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> Program:
    """Make this process look like a new interpreter.

    Args:
        request: what `_request` returns.
        descriptors: standard input, output and error, and those to pass on.
    """
    if request["new_session"]:
        os.setsid()
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _move(descriptors, [0, 1, 2, *request["passed"]])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    program = Program(**request["program"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding = sys.stdout.encoding
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)
    sys.stderr.reconfigure(line_buffering=True, write_through=unbuffered)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    tempfile.tempdir = None
    random.seed()
    sys.modules["numpy"].random.seed()
    from_environment = os.environ.get("PYTHONWARNINGS", "")
    options = [*filter(None, from_environment.split(",")), *program.warnings]
    sys.warnoptions[:] = options
    warnings._processoptions(options)  # type: ignore[attr-defined]
    first = {"-c": "", "-m": os.getcwd()}.get(
        program.kind, str(Path(program.what).resolve().parent)
    )
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    sys.path[:] = [first, *paths, *sys.path]
    sys.argv[:] = [{"-c": "-c", "-m": "-m"}.get(program.kind, program.what), *program.arguments]
    subprocess.Popen = Popen  # type: ignore[misc]
    return program


def _move(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors these numbers; whatever had them is closed."""
    above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 1 + max(numbers)) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _run(program: Program) -> None:
    """Run a program as the interpreter would."""
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["preloaded"], sys.modules["__main__"] = sys.modules["__main__"], main
    if program.kind == "-c":
        exec(compile(program.what, "<string>", "exec"), vars(main))
    elif program.kind == "-m":
        runpy.run_module(program.what, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program.what, run_name="__main__")


def _exit_status(program: Program) -> int:
    """Run a program; what it leaves uncaught is printed as usual."""
    try:
        _run(program)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _end(status: int) -> None:
    """End this process as the interpreter does, but for what takes long: freeing all modules."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def _main() -> Optional[Program]:
    del sys.path[0]  # this folder
    filters = list(warnings.filters)
    for name in MODULES:
        importlib.import_module(name)
    warnings.filters[:] = filters  # type: ignore[index]
    gc.collect()
    gc.freeze()  # or every process would write to all of torch's objects, and so copy them
    return _serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    _program = _main()
    _end(0 if _program is None else _exit_status(_program))
