"""Split the collected items into shards, for CI jobs that share a suite. Imports no torch.

All items of a case are in one shard. The shard depends on the collected cases and on the given durations,
but not on their order, so that every job computes the same shards.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ..settings import Shard
from .omissions import ShardNote

Item = TypeVar("Item")
_UNIT = 1e6  # weights are integers, whose sums do not depend on the order


def parts(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """The shard, from 1, of each case: the heaviest case first, each in the lightest shard so far.

    Args:
        weights: of the cases, by their keys.
        count: how many shards there are.
    """
    loads = [(0, 0, index) for index in range(1, count + 1)]  # weight, cases, shard
    shards = {}
    for key in sorted(weights, key=lambda key: (-weights[key], key)):
        load, cases, index = loads[0]
        shards[key] = index
        heapq.heapreplace(loads, (load + weights[key], cases + 1, index))
    return shards


def weights_of(
    cases: Mapping[str, Sequence[str]], durations: Mapping[str, float]
) -> dict[str, int]:
    """The weight of each case: the seconds of its items, with the mean for items of unknown duration.

    If no duration is known, it is the number of items.

    Args:
        cases: the node ids of each case's items.
        durations: seconds by node id.
    """
    known = [durations[name] for names in cases.values() for name in names if name in durations]
    mean = math.fsum(known) / len(known) if known else 0.0
    return {
        key: round(math.fsum(durations.get(name, mean or 1.0) for name in names) * _UNIT)
        for key, names in cases.items()
    }


def split(
    items: Sequence[Item],
    case_of: Callable[[Item], str | None],
    name_of: Callable[[Item], str],
    shard: Shard,
    durations: Mapping[str, float],
) -> tuple[list[Item], list[Item], ShardNote]:
    """The items of this shard, those of the other shards, and the note for the summary.

    Both lists keep the order of `items`. Tests without the mark are in the first shard, so that all
    jobs together run each test once.

    Args:
        case_of: the key of an item's case; None for a test without the mark.
        name_of: the node id of an item.
        durations: seconds by node id.
    """
    keys = [case_of(item) for item in items]
    cases: dict[str, list[str]] = defaultdict(list)
    for item, key in zip(items, keys, strict=True):
        if key is not None:
            cases[key].append(name_of(item))
    part = parts(weights_of(cases, durations), shard.count)
    kept: list[Item] = []
    others: list[Item] = []
    for item, key in zip(items, keys, strict=True):
        index = 1 if key is None else part[key]
        (kept if index == shard.index else others).append(item)
    kept_cases = [key for key, index in part.items() if index == shard.index]
    note = ShardNote(
        shard.index,
        shard.count,
        cases=len(kept_cases),
        items=sum(len(cases[key]) for key in kept_cases),
        all_cases=len(cases),
        all_items=sum(map(len, cases.values())),
        others=keys.count(None),
    )
    return kept, others, note
