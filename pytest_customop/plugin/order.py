"""Run quick items first if the session stops at a failure: `-x`, `--maxfail`."""

from __future__ import annotations

from typing import Any

import pytest

from ..checks.check import COSTS
from ..plan.items import PlannedItem
from .session.state import PLANNED

_COSTS = list(COSTS)  # from cheap to expensive


def quick_first(items: list[pytest.Item]) -> None:
    """Sort the items of the marks of each class, or of the rest of a file, in place.

    Cheap checks come first, and checks that compile come last. Among checks of equal cost, samples come
    before variants. Otherwise the order stays. Other tests keep their positions, and no fixture of a class
    or module is set up twice.
    """
    places: dict[Any, list[int]] = {}
    for at, item in enumerate(items):
        if PLANNED in item.stash:
            places.setdefault(item.parent, []).append(at)
    for positions in places.values():
        ordered = sorted(
            (items[at] for at in positions), key=lambda item: _rank(item.stash[PLANNED])
        )
        for at, item in zip(positions, ordered, strict=True):
            items[at] = item


def _rank(planned: PlannedItem) -> tuple[int, bool]:
    cost = "" if planned.check is None else planned.check.cost
    # The test's body, and checks without a declared cost, count like most checks.
    return _COSTS.index(cost or "calls"), bool(planned.variants)
