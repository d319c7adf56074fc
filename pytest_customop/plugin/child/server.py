"""The child process itself: a pytest session that collects files and runs items on request.

Other plugins treat it as a worker of pytest-xdist: they leave reports, caches and distribution to the
session that started it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator
from multiprocessing.connection import Connection, Pipe
from typing import Any

import pytest

from ...compat.pytest_private import base_temp
from ...core import fresh_process, lost_device
from ...core.forked import fork
from ...run.record import ResultRecord, from_wire, to_wire
from ..session.state import FINISHED, PLANNED, SESSION
from . import protocol
from .descriptors import send_descriptors
from .fork_safety import count_threads, may_fork, one_thread_of_torch
from .generated_input import packed
from .items import any_compiles, is_isolated, names_of
from .last_call import sender
from .protocol import CHILD, Collect, Collected, Names, Run


def main(descriptor: int) -> None:
    """Serve the session at the other end of a connection until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the session
    os.set_inheritable(descriptor, False)
    connection: Connection[Any, Any] = Connection(descriptor)
    start: protocol.Start = connection.recv()
    stderr = os.fdopen(os.dup(2), "w")
    faulthandler.enable(stderr)
    faulthandler.register(signal.SIGUSR1, stderr)
    _leave_no_core_file()
    _watch_session(connection)
    sys.exit(pytest.main(list(start.args), plugins=[ChildServer(connection, start, stderr)]))


def _leave_no_core_file() -> None:
    """Turn off core files: each crash would write one of the size of this process."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _watch_session(connection: Connection[Any, Any]) -> None:
    threading.Thread(target=_exit_with_session, args=(connection.fileno(),), daemon=True).start()


def _exit_with_session(descriptor: int) -> None:
    """Kill this process, and those that it has started, when the session closes the connection."""
    poll = select.poll()
    poll.register(descriptor, 0)  # nothing but the hang-up
    poll.poll()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _preload(compiler: bool) -> None:
    """Import what the first item would import, so that its time limit does not count it."""
    from torch.compiler import list_backends

    from ...compat.compiler import load_dynamo
    from ...global_state.preserve import preserved_state

    load_dynamo()
    if compiler:
        list_backends()  # imports them
    with preserved_state():
        pass


class ChildServer:
    """The plugin that makes a pytest session a child."""

    def __init__(
        self, connection: Connection[Any, Any], start: protocol.Start, stderr: Any
    ) -> None:
        self._connection = connection
        self._start = start
        self._stderr = stderr
        self._items: dict[str, dict[Names, pytest.Item]] = {}
        self._collected: list[pytest.Item] = []
        self._errors: list[str] = []
        self._captured = False
        self._phase = protocol.SETUP  # the phase that the session assumes when an item begins
        # How many threads a fork can do without; None if this process runs the items itself.
        self._threads = count_threads() if start.forks else None
        self._has_forked = False
        lost_device.when_lost(self._wait_for_the_end)

    # What kind of session this is

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: Any) -> None:
        """Before any plugin is configured, switch off what only the session's own process does."""
        self._config = config
        config.workerinput = {**self._start.workerinput, CHILD: True}
        config.workeroutput = {}
        off: dict[str, object] = {
            "usepdb": False,
            "lf": False,
            "failedfirst": False,
            "newfirst": False,
        }
        off |= {"stepwise": False, "cacheclear": False, "maxfail": 0}
        xdist = {"dist": "no", "distload": False, "numprocesses": None, "tx": []}
        for name, value in {**off, **xdist, "looponfail": False}.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        config.option.basetemp = self._start.basetemp
        config.args = []  # nothing is collected until it is requested

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Silence the terminal reporter; other plugins may rely on it, so it stays registered."""
        if config.pluginmanager.has_plugin("terminalreporter"):
            config.get_terminal_writer().write = lambda *_, **__: None  # type: ignore[method-assign]

    def pytest_internalerror(self, excrepr: object) -> None:
        """Write an internal error where the session finds it; it ends this process."""
        print(excrepr, file=self._stderr, flush=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer the session's messages until it sends `End`, or closes the connection."""
        self._send(protocol.Ready())
        with contextlib.suppress(EOFError):
            while not isinstance(request := self._connection.recv(), protocol.End):
                if isinstance(request, Collect):
                    self._collect(session, request.path)
                elif self._runs_here():
                    self._run(session, request)
        if self._has_forked:
            os._exit(0)  # the session that ends is the runner's
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Report that everything is torn down; the process ends next."""
        with contextlib.suppress(OSError):
            self._send(protocol.Done())

    def _send(self, message: object) -> None:
        self._connection.send(message)

    # The runner: a fork of this process as it is when everything is collected, and nothing has run

    def _runs_here(self) -> bool:
        """Whether this process, and not a runner, runs the requested item."""
        if self._threads is None or not may_fork(self._threads):
            self._threads = None
            return True
        base_temp(self._config)  # each runner would empty the folder
        own_end, other_end = Pipe()
        pid = fork()
        if pid == 0:
            os.setpgid(0, 0)
            own_end.close()
            self._connection.close()
            self._connection, self._threads, self._has_forked = other_end, None, False
            fresh_process.renew()
            _watch_session(other_end)
            return True
        self._has_forked = True
        other_end.close()
        with contextlib.suppress(OSError):  # the runner may have done so, or have ended
            os.setpgid(pid, pid)
        self._send(protocol.Runner(pid))
        send_descriptors(self._connection, [own_end.fileno()])
        own_end.close()
        self._outlive(pid)
        return False

    def _outlive(self, runner: int) -> None:
        """Wait until the runner has ended, and report how."""
        ended = os.waitid(os.P_PID, runner, os.WEXITED | os.WNOWAIT)
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            capture.read_global_capture()  # what the runner has left there
        exited = ended is not None and ended.si_code == os.CLD_EXITED
        status = ended.si_status if ended is not None else 0
        self._send(protocol.RunnerEnded(status if exited else -status))
        self._connection.poll(
            None
        )  # until then, the session may still kill what the runner has started
        os.waitpid(runner, 0)

    # Collection

    def _collect(self, session: pytest.Session, path: str) -> None:
        self._collected, self._errors = [], []
        session.config.args = [path]
        may_still_fork = self._threads is not None
        try:
            with one_thread_of_torch() if may_still_fork else contextlib.nullcontext():
                session.config.hook.pytest_collection(session=session)
        except pytest.UsageError as error:
            self._errors.append(str(error))
        self._items[path] = {names_of(item): item for item in self._collected}
        isolated = [item for item in self._collected if is_isolated(item)]
        if isolated:
            _preload(any_compiles(isolated))
        names = frozenset(self._items[path])
        self._send(Collected(names, "\n".join(self._errors) or None))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep every item: the session has already selected those that it requests."""
        self._collected = list(items)
        return (yield)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the error of a failed collection."""
        if report.failed:
            self._errors.append(report.longreprtext)

    # Running

    def _run(self, session: pytest.Session, request: Run) -> None:
        from ...compat import pytest_private

        item = self._items[request.path][request.names]
        # The node id may depend on the command line, and xdist may have changed it.
        pytest_private.set_nodeid(item, request.nodeid)
        item.stash[FINISHED] = [from_wire(record) for record in request.finished]
        following = self._items.get(request.next_path or "", {}).get(request.next_names)
        state = session.config.stash[SESSION]  # made when the item was collected, if not before
        state.on_phase, state.on_record = self._enter, self._send_variant
        state.on_input = lambda generated: self._send(protocol.Generated(packed(generated)))
        self._phase = protocol.SETUP
        try:
            with self._calls_shown(request):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except (KeyboardInterrupt, pytest.exit.Exception) as end:
            pytest_private.tear_down(session, None)
            interrupt = isinstance(end, KeyboardInterrupt)
            code = getattr(end, "returncode", None)
            self._send(protocol.Ended(interrupt, str(end), code))
        else:
            self._send(protocol.Done())

    def _calls_shown(self, request: Run) -> contextlib.AbstractContextManager[None]:
        if not request.shows_calls:
            return contextlib.nullcontext()
        from ...cases.arguments import calls_watched

        return calls_watched(sender(lambda data: self._send(protocol.Call(data))))

    def _enter(self, phase: str) -> None:
        if phase != self._phase:
            self._phase = phase
            self._send(protocol.Phase(phase))

    def _send_variant(self, record: ResultRecord) -> None:
        self._send(protocol.VariantEnded(to_wire(record)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Send the file that captures standard error; its end explains a crash."""
        if self._captured:
            return
        self._captured = True
        if os.path.samestat(os.fstat(2), os.fstat(self._stderr.fileno())):
            return
        self._send(protocol.Stderr())
        send_descriptors(self._connection, [2])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Notice if the test's own body has left a device unusable; checks notice it themselves."""
        try:
            return (yield)
        finally:
            planned = item.stash.get(PLANNED, None)
            if planned is not None and planned.case is not None:
                lost_device.wait_for(planned.case.placement.device)

    def _wait_for_the_end(self, device: str, error: str) -> None:
        """Report a device that is lost; the session kills this process, and starts another one."""
        self._send(protocol.DeviceLost(device, error))
        while True:
            time.sleep(1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Report that the teardown begins."""
        self._enter(protocol.TEARDOWN)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the report to the session."""
        config = self._config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._send(protocol.Report(data))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """Send a warning of a test. The session has seen those of the collection itself."""
        if when != "runtest":
            return
        category = _sendable(warning_message.category)
        place = (warning_message.filename, warning_message.lineno)
        text = str(warning_message.message)
        self._send(protocol.Warned(text, category, *place, when, nodeid, location))


def _sendable(category: type[Warning]) -> type[Warning]:
    """The category of a warning; if it cannot be pickled, its nearest base that can be."""
    for base in category.__mro__:
        try:
            pickle.dumps(base)
        except (pickle.PicklingError, AttributeError):  # for example a class made in a function
            continue
        return base
    return Warning
