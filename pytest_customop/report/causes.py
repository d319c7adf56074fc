"""Which findings bring others about, so that each defect is told once.

Findings of one case belong together if they have one code, or if the catalogue says that one follows
from the other; the same finding of the same check, in the same words, on another case of the test is
a repetition, and among variants of the samples in any words.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any

from ..checks import catalogue, report_order
from .variants import is_variant

Record = Mapping[str, Any]


# Causes before their consequences.
@functools.cache
def _codes() -> dict[str, int]:
    order = TopologicalSorter({code: entry.follows for code, entry in catalogue().items()})
    return {code: rank for rank, code in enumerate(order.static_order())}


def case_of(record: Record) -> tuple[Any, ...]:
    """What tells cases apart: the test, the op, and the place in its matrix."""
    place = ("op", "device", "dtype", "requires_grad", "layout", "sample")
    return (record["nodeid"].partition("[")[0], *(record[name] for name in place))


def causes(records: Iterable[Record]) -> dict[int, int]:
    """For each record that follows from another or repeats it, the position of that other one.

    A record that is not in the result is a root, or no finding.
    """
    found = list(records)
    told = [at for at, record in enumerate(found) if record["outcome"] == "failed"]
    told = [at for at in told if found[at]["finding"] in catalogue()]
    told.sort(key=lambda at: _rank(found[at]))
    by_case: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    first: dict[tuple[Any, ...], int] = {}
    result: dict[int, int] = {}
    for at in told:
        record = found[at]
        case = case_of(record)
        root = next((one for one in by_case[case] if _follows(record, found[one])), None)
        if root is None:
            by_case[case].append(at)
            root = first.setdefault((*case[:2], *_words(record)), at)
        if root != at:
            result[at] = result.get(root, root)
    return result


def _words(record: Record) -> tuple[Any, ...]:
    """What a finding repeats if another case has the same: of variants, its check and code."""
    told = (record["check"], record["finding"])
    return (*told, "variants") if is_variant(record) else (*told, record["message"])


def _rank(record: Record) -> tuple[Any, ...]:
    code, check = record["finding"], record["check"]
    return _codes()[code], report_order(check, code), record["nodeid"]


def _follows(record: Record, earlier: Record) -> bool:
    code, other = record["finding"], earlier["finding"]
    return bool(code == other or other in catalogue()[code].follows)
