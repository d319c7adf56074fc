"""What a check says of one case, for the tests of the checks themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_customop.case import Case
from pytest_customop.findings import CheckFailed, CheckSkipped, Finding


def finding(check: Callable[[Case], None], case: Case) -> Finding:
    """What the check reports on a case that works in eager mode; it must fail."""
    assert case.eager.error is None
    with pytest.raises(CheckFailed) as caught:
        check(case)
    return caught.value.finding


def skipped(check: Callable[[Case], None], case: Case) -> CheckSkipped:
    """Why the check skips a case that works in eager mode; it must."""
    assert case.eager.error is None
    with pytest.raises(CheckSkipped) as caught:
        check(case)
    return caught.value
