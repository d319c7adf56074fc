"""Properties of an item, which `--junitxml` and other reports of pytest show beside its outcome.

They go to `item.user_properties`, like those of the fixture `record_property`, which warns about `xunit2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from .state import PLANNED

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.record import ResultRecord

# The properties from the last run of an item: a plugin may run it again.
_OF_RUN: pytest.StashKey[list[tuple[str, object]]] = pytest.StashKey()


def add_case(item: pytest.Item, planned: PlannedItem) -> None:
    """Add what is known of an item before it runs: its op, check and case."""
    place = planned.place
    gradients = None if place.requires_grad is None else str(place.requires_grad).lower()
    values = {
        "op": planned.op,
        "check": planned.check_name or None,
        "device": place.device,
        "dtype": place.dtype,
        "requires_grad": gradients,
        "layout": place.layout,
        "sample": place.sample,
    }
    item.user_properties += [(name, value) for name, value in values.items() if value is not None]


def add_results(
    item: pytest.Item, report: pytest.TestReport, records: Sequence[ResultRecord]
) -> None:
    """Add what a run of an item has found, to the item and to its report of the call.

    Args:
        records: of the run.
    """
    earlier = item.stash.get(_OF_RUN, [])
    results = item.stash[_OF_RUN] = list(dict.fromkeys(_of_results(item, records)))
    for properties in (item.user_properties, report.user_properties):
        properties[:] = [pair for pair in properties if pair not in earlier] + results


def _of_results(item: pytest.Item, records: Iterable[ResultRecord]) -> Iterable[tuple[str, object]]:
    by_hand_only = PLANNED not in item.stash
    for record in records:
        if by_hand_only:
            yield "op", record.op
        if record.finding is not None:
            yield "note" if record.outcome == "noted" else "finding", record.finding.code
            if record.place.variant is not None:
                yield "variant", record.place.variant
        if record.known:
            yield "known", record.known
