"""Generated inputs of one call of `customop_cases`, tried in this process."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pytest_customop.checks.check import Check
from pytest_customop.declare.declaration import declare_call
from pytest_customop.fuzz.search import Found, search
from pytest_customop.plan.matrix import plan
from pytest_customop.plan.selection import registry_from, select_checks
from pytest_customop.run.engine import run_check
from pytest_customop.run.standalone import standalone_hook
from pytest_customop.settings import Settings


def searched(
    mark: Mapping[str, Any], checks: Collection[str], count: int
) -> Iterator[tuple[Check, Found]]:
    """Each check, and what it says of `count` generated inputs.

    Args:
        mark: the keywords of `customop_cases`.
        checks: the names of the checks.
    """
    settings = Settings(fuzz=count, checks=tuple(checks))
    registry = registry_from(standalone_hook())
    items = plan(
        [declare_call(dict(mark), "generated inputs")],
        settings,
        lambda declared: select_checks(registry, declared, settings),
        lambda device: None,
    )
    for item in items:
        check = item.check
        if item.fuzz is not None and check is not None:
            yield check, search(item.fuzz, lambda case, check=check: run_check(check, case), None)
