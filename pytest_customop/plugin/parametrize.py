"""Parametrize the plugin's fixtures: with the plan of a test, and with the session's devices and dtypes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ..core.gc_pause import gc_paused
from .fixture_names import CELL, DEVICE, DTYPE
from .runtime import session_of
from .session.state import Session

if TYPE_CHECKING:
    from ..plan.items import PlannedItem

NOTHING = "not-selected"  # the id of the item of a test if nothing of it is selected


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that requests one of the fixtures.

    Raises:
        pytest.fail.Exception: for a mistake in a mark, a hook or an ini file, in one line.
    """
    with gc_paused():
        for name, function in ((CELL, _cells), (DEVICE, _devices), (DTYPE, _dtypes)):
            if name in metafunc.fixturenames:
                function(metafunc)


def _cells(metafunc: pytest.Metafunc) -> None:
    """Parametrize with the planned items of the test, which hooks may change."""
    from ..core.hooks import call_hook
    from .planning import plan_for

    session = session_of(metafunc.config)
    hook = metafunc.definition.ihook
    with mistakes_in_one_line():
        _validate_ini(session)
        registry = session.registry(hook)
        session.note_unknown_checks(registry)
        planned = plan_for(
            metafunc, session.settings, registry, session.why_absent, session.omissions.add
        )
        call_hook(
            hook.pytest_customop_modify_cases, definition=metafunc.definition, planned=planned
        )
        if session.baseline is not None:
            session.baseline.collect(metafunc.definition.nodeid, planned)
    params = [pytest.param(item, id=item.id, marks=_skip_marks(item, session)) for item in planned]
    # Not an empty list: what pytest does with one depends on its configuration.
    metafunc.parametrize(
        CELL, params or [pytest.param(None, id=NOTHING)], indirect=True, scope="function"
    )


@contextlib.contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """Report a mistake in a mark or a hook as a collection error of one line."""
    from ..core.hooks import HookError
    from ..declare.mistakes import MarkError

    try:
        yield
    except (MarkError, HookError) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _validate_ini(session: Session) -> None:
    try:
        session.validate_ini()
    except ValueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _skip_marks(planned: PlannedItem, session: Session) -> tuple[pytest.MarkDecorator, ...]:
    if planned.skip is None or (planned.missing_device and session.settings.require_devices):
        return ()
    return (pytest.mark.skip(reason=planned.skip),)


def _devices(metafunc: pytest.Metafunc) -> None:
    session = session_of(metafunc.config)
    _validate_ini(session)
    params = []
    for device in session.settings.devices or ("cpu",):
        with mistakes_in_one_line():
            absent = session.why_absent(device)
        skip = absent and not session.settings.require_devices
        marks = [pytest.mark.skip(reason=absent or "")] if skip else []
        params.append(pytest.param(device, id=device, marks=marks))
    metafunc.parametrize(DEVICE, params, indirect=True, scope="function")


def _dtypes(metafunc: pytest.Metafunc) -> None:
    import torch

    from ..core.wording import dtype_name
    from ..settings.values import dtype_named

    session = session_of(metafunc.config)
    _validate_ini(session)
    selected = [dtype_named(name) for name in session.settings.dtypes or ()]
    dtypes = selected or [torch.get_default_dtype()]
    params = [pytest.param(dtype, id=dtype_name(dtype)) for dtype in dtypes]
    metafunc.parametrize(DTYPE, params, indirect=True, scope="function")
