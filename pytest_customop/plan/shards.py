"""One of several parts of the cases: for CI jobs that share a suite. Imports no torch.

All items of a case stay together. The parts follow from the cases that are collected and from the
durations given, not from their order, so that every job finds the same ones.
"""

from __future__ import annotations

import heapq
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .omissions import ShardNote

Item = TypeVar("Item")
_UNIT = 1e6  # weights are whole numbers, whose sums do not depend on the order


@dataclass(frozen=True)
class Shard:
    """Part `index`, from 1, of `count`."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse(text: str) -> Shard:
    """The shard that `2/5` means.

    Raises:
        ValueError: for anything else.
    """
    found = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    if found and 1 <= int(found[1]) <= int(found[2]):
        return Shard(int(found[1]), int(found[2]))
    raise ValueError("give i/n with 1 <= i <= n, as 2/5")


def read_durations(path: Path) -> dict[str, float]:
    """Seconds by node id, of a report of an earlier session.

    Raises:
        ValueError: for a file that is none, or cannot be read.
    """
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        found: dict[str, float] = defaultdict(float)
        for one in results:
            found[str(one["nodeid"])] += float(one["duration"] or 0)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError("is no report of --customop-report") from None
    return dict(found)


def parts(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """The part, from 1, of each case: the heaviest first, each to the part that is lightest so far."""
    loads = [(0, 0, index) for index in range(1, count + 1)]  # weight, cases, part
    found = {}
    for key in sorted(weights, key=lambda key: (-weights[key], key)):
        load, cases, index = loads[0]
        found[key] = index
        heapq.heapreplace(loads, (load + weights[key], cases + 1, index))
    return found


def weights_of(
    cases: Mapping[str, Sequence[str]], durations: Mapping[str, float]
) -> dict[str, int]:
    """How much each case weighs: its items' seconds, the mean for those not known; else their number.

    Args:
        cases: the node ids of each case's items.
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
    """The items of this shard and those of others, each in order.

    Tests without the mark are the first shard's, so that all jobs together run each test once.

    Args:
        case_of: what items of one case have in common; None for a test without the mark.
        name_of: the node id.
        durations: seconds by node id.
    """
    keys = [case_of(item) for item in items]
    cases: dict[str, list[str]] = defaultdict(list)
    for item, key in zip(items, keys, strict=True):
        if key is not None:
            cases[key].append(name_of(item))
    part = parts(weights_of(cases, durations), shard.count)
    mine: list[Item] = []
    others: list[Item] = []
    for item, key in zip(items, keys, strict=True):
        home = 1 if key is None else part[key]
        (mine if home == shard.index else others).append(item)
    own = [key for key, home in part.items() if home == shard.index]
    note = ShardNote(
        shard.index,
        shard.count,
        cases=len(own),
        items=sum(len(cases[key]) for key in own),
        all_cases=len(cases),
        all_items=sum(map(len, cases.values())),
        others=keys.count(None),
    )
    return mine, others, note
