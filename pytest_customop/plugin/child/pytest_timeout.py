"""`--customop-timeout` without a child process: if pytest-timeout ends an item, that is a finding."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pytest

from ...core.tracebacks import is_of_author
from ..read_options import where_given
from ..session.state import Session
from .protocol import is_child

if TYPE_CHECKING:
    from ...cases.case import Case
    from ...checks import Check
    from ...run.results import CheckResult
    from .exit_causes import ProcessExit

_NAMES = ("timeout", "pytest_timeout")  # under which pytest-timeout may be registered
_MESSAGE = re.compile(r"Timeout \(?>([\d.]+)s\)? ?from pytest-timeout|Timeout >([\d.]+)s")

# Cases whose plain call did not end. Every other check of such a case begins with that call too.
_timed_out: WeakKeyDictionary[Case, ProcessExit] = WeakKeyDictionary()


def validate_timer(config: pytest.Config, session: Session) -> None:
    """Raise `pytest.UsageError` if a time limit is given and nothing here can enforce it."""
    if _is_used(session) and not any(config.pluginmanager.has_plugin(name) for name in _NAMES):
        raise pytest.UsageError(
            f"{where_given(config, 'timeout')}: add --customop-isolate=on, which runs the items in a child "
            "process; or install pytest-timeout, which ends them in this one"
        )


def _is_used(session: Session) -> bool:
    if not session.settings.timeout or session.settings.isolate == "on":
        return False
    return not is_child(session.config)


def add_time_limit(item: pytest.Item, session: Session) -> None:
    """Limit the time of a marked item; a `timeout` mark of the test's own takes precedence."""
    if _is_used(session):
        item.add_marker(pytest.mark.timeout(session.settings.timeout))


def run_in_time(item: pytest.Item, check: Check, case: Case, session: Session) -> CheckResult:
    """The result of a check. If pytest-timeout ends the check, that is the finding `hang`.

    Each variant of an item has the whole time. The caller restores the random streams.

    Args:
        item: the item that runs the check.
        check, case: the check, and the case that it runs on.
        session: its `on_phase` is called before each phase.
    """
    from ...compat.pytest_private import restart_timer
    from ...run.engine import run_check
    from .crash_results import result_of
    from .protocol import DRAW, EAGER, SETUP

    phase = SETUP  # the limit may be passed before the first phase

    def enter(name: str) -> None:
        nonlocal phase
        phase = name
        session.on_phase(name)

    ended = _timed_out.get(case)
    if ended is None:
        if _is_used(session) and case.variant is not None:
            restart_timer(item)
        try:
            return run_check(check, case, enter, streams=False)
        except pytest.fail.Exception as failure:
            ended = _as_exit(failure)
            if ended is None:
                raise
        ended.phase = phase
        if phase in (DRAW, EAGER):
            _timed_out[case] = ended
    return result_of(check, case, ended)


def _as_exit(failure: BaseException) -> ProcessExit | None:
    """The exit for a failure of pytest-timeout; None for another failure."""
    from .exit_causes import timed_out

    match = _MESSAGE.search(str(failure))
    if match is None:
        return None
    seconds = float(match[1] or match[2])
    frames = traceback.extract_tb(failure.__traceback__)
    author = [
        frame for frame in frames if is_of_author(frame.filename) and not _of_runner(frame.filename)
    ]
    ended = timed_out(seconds, "".join(traceback.format_list(author)).rstrip())
    ended.seconds = seconds
    return ended


def _of_runner(file: str) -> bool:
    from ...compat.pytest_private import runs_tests

    return runs_tests(file) or file.endswith("pytest_timeout.py")
