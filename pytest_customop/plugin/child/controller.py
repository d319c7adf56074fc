"""The session's side: marked items are run by the child, and what came of them is logged here.

Everything else of pytest goes on as always: the reports are pytest's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from ..session.state import PLANNED, Session
from . import is_isolated, protocol
from .exit_causes import Died
from .item_log import Log
from .reusable import NotThere, WarmChild
from .xdist_emulation import measures_coverage

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult


class Isolation:
    """The plugin of `--customop-isolate`, in the session or in each worker of pytest-xdist."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._child = WarmChild(config, session.settings)
        self._deadly: dict[int, Died] = {}  # the cases whose plain call ends the process

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Have the child run a marked item; everything else runs as always."""
        if not is_isolated(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            self._run(item, nextitem)
        except BaseException:  # Ctrl-C above all
            self._child.kill()
            raise
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        planned = item.stash[PLANNED]
        log = Log(item)
        # After a plain call that ends the process, every further check of the case would end it too.
        known = self._deadly.get(id(planned.case)) if planned.check is not None else None
        end = known or self._lost(item, nextitem, log)
        if isinstance(end, Died):
            if end.phase in (protocol.DRAW, protocol.EAGER):
                self._deadly[id(planned.case)] = end
            log.died(_result_of(planned, end))
        elif end is not None:
            log.failed(str(end))
        log.torn_down(nextitem)

    def _lost(
        self, item: pytest.Item, nextitem: pytest.Item | None, log: Log
    ) -> Died | NotThere | None:
        """Have an item run; the reason why that did not come to its end, if it did not."""
        try:
            for message in self._child.run(item, nextitem):
                self._take(message, log)
        except (Died, NotThere) as end:
            return end
        return None

    def _take(self, message: Any, log: Log) -> None:
        hook = self._config.hook
        if isinstance(message, protocol.Report):
            log.take(hook.pytest_report_from_serializable(config=self._config, data=message.data))
        elif isinstance(message, protocol.Warned):
            self._warn(message)
        elif isinstance(message, protocol.Ended):
            if message.interrupt:
                raise KeyboardInterrupt(message.reason)
            raise pytest.exit.Exception(message.reason, message.returncode)

    def _warn(self, warned: protocol.Warned) -> None:
        given = warnings.WarningMessage(
            warned.text, warned.category, warned.filename, warned.lineno
        )
        told = {"when": warned.when, "nodeid": warned.nodeid, "location": warned.location}
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": given, **told}
        )

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """pytest-timeout watches the child's items in the child."""
        return is_isolated(item) or None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """What the child has measured is there before pytest-cov gathers it."""
        result = yield
        if measures_coverage(self._config):
            self._child.finish()
            self._child.end()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """The child ends while this process writes reports."""
        self._child.finish()

    def pytest_unconfigure(self) -> None:
        """However the session ended, no child outlives it."""
        self._child.end()


def _result_of(planned: PlannedItem, death: Died) -> CheckResult:
    from .crash_results import result_of

    return result_of(planned, death)
