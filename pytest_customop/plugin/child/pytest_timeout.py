"""`--customop-timeout` without a child: pytest-timeout keeps the time, and what it ends is a finding."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ...core.tracebacks import is_of_author
from ..session.state import Session

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult
    from .exit_causes import Died

_NAMES = ("timeout", "pytest_timeout")  # under which pytest-timeout may be registered
_WORDS = re.compile(r"Timeout \(?>([\d.]+)s\)? ?from pytest-timeout|Timeout >([\d.]+)s")


def validate_timer(config: pytest.Config, session: Session) -> None:
    """Raise `pytest.UsageError` if a time is given and nothing here can keep it."""
    if _here(session) and not any(config.pluginmanager.has_plugin(name) for name in _NAMES):
        raise pytest.UsageError(
            "--customop-timeout: add --customop-isolate, which runs the items in a child process; "
            "or install pytest-timeout, which ends them in this one"
        )


def _here(session: Session) -> bool:
    return bool(session.settings.timeout) and not session.settings.isolate


def limit(item: pytest.Item, session: Session) -> None:
    """Give a marked item its time; a `timeout` mark of the test's own is stronger."""
    if _here(session):
        item.add_marker(pytest.mark.timeout(session.settings.timeout))


def run_in_time(
    planned: PlannedItem, on_phase: Callable[[str], None], hung: dict[int, Died]
) -> CheckResult:
    """The result of a check; where pytest-timeout ends it, the finding `hang`.

    Args:
        planned: the check and the case.
        on_phase: as `engine.run_check` takes it.
        hung: by the ids of cases, the plain calls that did not end. The other checks of such a case
            begin with that call too, and are not run.
    """
    from ...run.engine import run_check
    from .crash_results import result_of
    from .protocol import DRAW, EAGER

    assert planned.check is not None
    assert planned.case is not None
    phases: list[str] = []

    def enter(phase: str) -> None:
        phases.append(phase)
        on_phase(phase)

    end = hung.get(id(planned.case))
    if end is None:
        try:
            return run_check(planned.check, planned.case, enter)
        except pytest.fail.Exception as failure:
            end = _of_time(failure)
            if end is None:
                raise
        end.phase = phases[-1]
        if end.phase in (DRAW, EAGER):
            hung[id(planned.case)] = end
    return result_of(planned, end)


def _of_time(failure: BaseException) -> Died | None:
    """What pytest-timeout has ended; None if this failure is not its."""
    from .exit_causes import for_time

    words = _WORDS.search(str(failure))
    if words is None:
        return None
    frames = traceback.extract_tb(failure.__traceback__)
    own = [one for one in frames if is_of_author(one.filename) and not _of_pytest(one.filename)]
    ended = for_time(float(words[1] or words[2]), "".join(traceback.format_list(own)).rstrip())
    ended.seconds = float(words[1] or words[2])
    return ended


def _of_pytest(file: str) -> bool:
    return re.search(r"[/\\](_pytest[/\\]|pluggy[/\\]|pytest_timeout\.py)", file) is not None
