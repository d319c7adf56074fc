"""The hooks that other plugins and conftest files implement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import pytest

    from .checks import Check
    from .plan.items import PlannedItem

hookspec = pluggy.HookspecMarker("pytest")
hookimpl = pluggy.HookimplMarker("pytest")


@hookspec
def pytest_customop_register_checks() -> Iterable[Check]:  # type: ignore[empty-body]
    """Return the checks to add to those of the package.

    The checks of a conftest apply to the tests below it. They appear in ids, in
    `--customop-checks` and `--customop-list-checks`, in the summary and in the report.
    `--customop-explain` prints the explanations in their `Check.findings`.
    """


@hookspec(firstresult=True)
def pytest_customop_device_available(device: str) -> bool | str | None:
    """Return whether a device is available; the first answer that is not None counts.

    Args:
        device: as on the command line: `cuda`, `cuda:1`, `xpu`.

    Returns:
        True; or False, or the reason why it is not available; or None to leave the answer to other
        plugins and to torch.
    """


@hookspec
def pytest_customop_modify_cases(
    definition: pytest.Item | None, planned: list[PlannedItem]
) -> None:
    """Change the list of the items that one test becomes, in place: remove some, or replace them.

    Args:
        definition: the test, with its name, path and markers; None in `check_op`.
        planned: the items, sorted by id. An item of a check on the variants of a
            case has `PlannedItem.variants`.
    """


@hookspec
def pytest_customop_result(result: dict[str, Any]) -> None:
    """Receive each result of the session as it comes: for dashboards, in pytest only.

    Under pytest-xdist only the controller calls it.

    Args:
        result: an entry of `results` in the JSON report.
    """
