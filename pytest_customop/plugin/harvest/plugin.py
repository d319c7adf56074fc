"""The hooks of `--customop-harvest`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from typing import Any

import pytest

from ...compat.xdist_private import is_controller
from ..read_options import where_given
from ..session.state import COUNT, PLANNED, Session

NAME = "customop-harvest"  # of the plugin
_COUNT = "customop_harvested"  # an attribute of reports


def harvest(config: pytest.Config, session: Session) -> None:
    """Record calls, and check them when the suite has run.

    Raises:
        pytest.UsageError: for a file to write without a harvest.
    """
    if not session.settings.harvest:
        option = where_given(config, "harvest-save")
        raise pytest.UsageError(f"{option}: give --customop-harvest=NAMESPACE too")
    config.pluginmanager.register(Harvest(session), NAME)


class Harvest:
    """Records the calls of the tests in this process, and runs the checks after the tests."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._recorder: Any = None
        self._exchange: Any = None
        self._folder: str | None = None  # of a controller, for its workers

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give xdist's workers a folder for their calls."""
        from .exchange import FOLDER

        self._folder = self._folder or tempfile.mkdtemp(prefix="customop-harvest-")
        node.workerinput[FOLDER] = self._folder

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """In a worker, join the exchange, so that the others wait for this worker."""
        workerinput = getattr(session.config, "workerinput", None)
        if workerinput is not None and not session.config.option.collectonly:
            from .exchange import exchange_of

            self._exchange = exchange_of(workerinput)
            session.config.pluginmanager.register(_Worker())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file of marked tests, when every worker has sent its part."""
        if self._session.settings.harvest_save and not hasattr(session.config, "workerinput"):
            from .save import save

            save(self._session)

    def pytest_unconfigure(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Record while the tests run, then run the items of the recorded calls."""
        if is_controller(session.config):
            session.config.pluginmanager.register(_Controller(session))
            return (yield)
        if session.config.option.collectonly:
            return (yield)
        from ...harvest.recorder import Recorder

        self._recorder = Recorder(self._session.settings.harvest or ())
        self._recorder.start()
        try:
            result = yield
        except BaseException as error:
            self._give_up(str(error) or type(error).__name__)
            raise
        finally:
            self._recorder.stop()
        if session.shouldfail or session.shouldstop:  # a worker's loop raises nothing
            self._give_up(str(session.shouldfail or session.shouldstop))
            return result
        from .run import run_harvest

        run_harvest(session, self._session, self._recorder, self._exchange)
        return result

    def _give_up(self, why: str) -> None:
        """Check nothing, and keep other workers from waiting."""
        self._session.harvest.not_run = why
        if self._exchange is not None:
            self._exchange.leave()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the calls of other tests, but not those of the items of a mark."""
        from ...compat.op_calls import unobserved

        if PLANNED in item.stash or self._recorder is None:
            with unobserved():
                return (yield)
        self._recorder.current = item.nodeid
        self._session.harvest.tests += 1
        try:
            return (yield)
        finally:
            self._recorder.current = ""


class _Worker:
    """Hooks for workers only: each hook costs time in every test of a suite."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the number of harvested items to the report of the first one."""
        report = yield
        if call.when == "setup" and COUNT in item.stash:
            setattr(report, _COUNT, item.stash[COUNT])
        return report


class _Controller:
    """Hooks for controllers only."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the items that workers add, before the progress is printed."""
        self._session.testscollected += getattr(report, _COUNT, 0)
