"""Which items a child process runs, and their names there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from ...core.lost_device import error_of
from ...settings import Settings
from ..session.state import HARVESTED, PLANNED, SESSION

if TYPE_CHECKING:
    from ...plan.items import PlannedItem


def is_isolated(item: pytest.Item) -> bool:
    """Whether a child process runs an item: a check or a body on a case.

    With `--customop-isolate=auto`, these are only the items with variants that could crash the process, in
    a scan every item of an op that could, and items on a device that is lost to the session.
    """
    planned = item.stash.get(PLANNED, None)
    if planned is None or planned.case is None or planned.skip is not None:
        return False
    if HARVESTED in item.stash:
        return False  # a child process has not seen the call
    settings = item.config.stash[SESSION].settings
    if settings.isolate == "on" or needs_child(planned, settings):
        return True
    return settings.without_child is None and error_of(planned.case.placement.device) is not None


def needs_child(planned: PlannedItem, settings: Settings) -> bool:
    """Whether an item could end the process that runs it, so that a child process should run it.

    The samples of a mark are the author's own. For samples that a scan has found, no one guarantees that
    the op is safe.
    """
    if planned.needs_child or not settings.scan or settings.without_child is not None:
        return planned.needs_child
    from ...cases.crash_risk import may_crash

    case = planned.case
    return case is not None and may_crash(case)


def is_on_cpu(item: pytest.Item) -> bool:
    """Whether an item that a child process runs is of a case on the CPU."""
    import torch

    case = item.stash[PLANNED].case
    return case is not None and torch.device(case.placement.device).type == "cpu"


def any_compiles(items: Iterable[pytest.Item]) -> bool:
    """Whether some of the items that a child process runs may compile."""
    checks = (item.stash[PLANNED].check for item in items)
    return any(check is not None and not (check.cheap or check.cheap_variants) for check in checks)


def names_of(item: pytest.Item) -> tuple[str, ...]:
    """The names of an item and of the classes around it, below its file."""
    chain = item.listchain()
    file = max(at for at, node in enumerate(chain) if isinstance(node, pytest.File))
    return tuple(node.name for node in chain[file + 1 :])
