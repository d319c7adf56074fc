"""The fixtures that tests request.

Every session loads this module, so each fixture imports what it needs itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch

    from ..plan.items import PlannedItem
    from .case_handle import CaseHandle
    from .inline_check import InlineCheck


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
def customop_check(request: pytest.FixtureRequest) -> InlineCheck:
    """Check an op on these inputs: `customop_check(torch.ops.mylib.foo, x, y)`.

    Runs every check of the session on them and raises one error that lists every finding. Among the
    keywords, `checks=`, `variants=`, `tolerances=`, `reference=` and `known=` are for the check.
    """
    from .inline_check import InlineCheck
    from .runtime import session_of

    return InlineCheck(request.node, session_of(request.config))


@pytest.fixture
def customop_device(request: pytest.FixtureRequest) -> str:
    """Each device of `--customop-devices` in turn; absent ones are skipped with the reason.

    Under xdist, with several devices of a type, the current device is the worker's own.
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
