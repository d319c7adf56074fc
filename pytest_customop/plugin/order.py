"""Run what is quick first where a session stops at a failure: `-x`, `--maxfail`."""

from __future__ import annotations

from typing import Any

import pytest

from ..checks.check import COSTS
from ..plan.items import PlannedItem
from .session.state import PLANNED

_COSTS = list(COSTS)  # from cheap to expensive


def quick_first(items: list[pytest.Item]) -> None:
    """Sort the items of the marks of each class, or of the rest of a file, in place.

    The checks of little cost come first, those that compile last, and among checks of one cost the samples
    before the variants. Within each of these the order stays. So does the place of other tests, and no
    fixture of a class or module is set up twice.
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
    # The test's body, and checks that do not say what they cost, are like most checks.
    return _COSTS.index(cost or "calls"), bool(planned.variants)
