"""The hooks that other plugins and conftest files implement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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

    A conftest's checks are there for the tests below it. They appear in ids, in
    `--customop-checks` and `--customop-list-checks`, in the summary and in the report.
    """


@hookspec(firstresult=True)
def pytest_customop_device_available(device: str) -> bool | str | None:
    """Say whether a device is here.

    Args:
        device: as on the command line: `cuda`, `cuda:1`, `npu`.

    Return True, or the reason why not as a string (or False), or None to leave the answer to others.
    """


@hookspec
def pytest_customop_modify_cases(definition: pytest.Item, planned: list[PlannedItem]) -> None:
    """Change the planned items of one test in place: drop some, or replace them.

    Args:
        definition: the test, with its name, path and markers.
        planned: the items to be, sorted by id; those of variants of the samples among them
            (`PlannedItem.is_variant`).
    """
