"""The fixtures that tests request.

Every session loads this module, so that each fixture imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

    from ..plan.items import PlannedItem
    from .case_handle import CaseHandle


@pytest.fixture
def _customop_cell(request: pytest.FixtureRequest) -> PlannedItem:
    planned: PlannedItem = request.param
    if planned.case is not None:
        from .runtime import session_of

        device = planned.case.placement.device
        session_of(request.config).use_own_device(request, device)
    return planned


@pytest.fixture
def customop_case(_customop_cell: PlannedItem) -> CaseHandle:
    """One case of the test's customop_cases mark: call it to run the op on fresh inputs.

    `.op`, `.args`, `.kwargs` (of the last call), `.inputs()` (fresh), `.device`, `.dtype`,
    `.requires_grad`, `.layout`, `.sample_id`.
    """
    from ..declare.mistakes import MarkError
    from .case_handle import CaseHandle

    assert _customop_cell.case is not None  # only the body requests it
    try:
        return CaseHandle(_customop_cell.case)
    except MarkError as error:  # its inputs cannot be drawn
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def customop_check(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Check an op on these inputs: `customop_check(torch.ops.mylib.foo, x, y)`.

    Runs every check of the session on them and raises one error that lists every finding.
    """
    from ..declare.declaration import declare_call
    from ..declare.inputs import Sample
    from ..declare.mistakes import raised_at_call
    from ..run.devices import worker_devices
    from ..run.standalone import run_declaration
    from .case_handle import ConformanceError
    from .runtime import session_of
    from .session.records import record_of
    from .session.state import RECORDS

    item = request.node
    session = session_of(item.config)
    records = item.stash.setdefault(RECORDS, [])

    @raised_at_call
    def check(op: Any, /, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        given = {"op": op, "samples": [Sample(args, kwargs)], "variants": False}
        declaration = declare_call(given, "customop_check", as_given=True)
        with worker_devices(session.settings.devices or (), session.worker):
            found = run_declaration(declaration, session.settings, item.ihook)
        bad = [one for one in found if one.outcome in ("failed", "error")]
        for one in found:
            number = bad.index(one) if one in bad else 0
            records.append(record_of(item, one, number=number, by_hand=True))
        if bad:
            raise ConformanceError(bad)

    return check


@pytest.fixture
def customop_device(request: pytest.FixtureRequest) -> str:
    """Each device of `--customop-devices` in turn; absent ones are skipped with the reason.

    Under xdist, with several devices of a type, the current one is the worker's own.
    """
    from .runtime import session_of

    session = session_of(request.config)
    device: str = request.param
    absent = session.why_absent(device)
    if absent:
        pytest.fail(f"{absent} (--customop-require-devices)", pytrace=False)
    session.use_own_device(request, device)
    return device


@pytest.fixture
def customop_dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype of `--customop-dtypes` in turn; without the option torch's default dtype."""
    return request.param  # type: ignore[no-any-return]
