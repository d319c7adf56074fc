"""An entry of the baseline, the cells of the matrix that it covers, and how they are folded.

A cell does not change when a test is renamed: it depends on the op, the check, and the place of the case.
All samples without an id of their own are one cell, and so are the variants of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Union

from ..plan.place import GENERATED, Place
from ..run.record import ResultRecord

PLAIN, VARIANT = "samples", "variants"  # the kinds of cases
DRAWN = "generated"  # stands for the samples of generated inputs, which are drawn from all samples
UNNAMED = "unnamed"  # stands for the samples whose id is their position
CALLS = ("customop_check", "harvest")  # stand for calls of that fixture, and for harvested calls
FEW = 3  # steps of variants that an entry lists

Value = Union[str, bool, None]
# None: every value.
Values = Union[frozenset[Value], None]


class Cell(NamedTuple):
    """A place in the matrix of an op and a check; the fields are the dimensions of an entry."""

    device: str | None
    dtype: str | None
    requires_grad: bool | None
    layout: str | None
    sample: str | None
    kind: str


DIMENSIONS = Cell._fields


class Key(NamedTuple):
    """Identifies an entry. New entries are put in the order of their keys."""

    op: str
    check: str
    finding: str


def cell_of_record(record: ResultRecord) -> Cell:
    """The cell of a result."""
    cell = cell_of(record.place)
    if is_call(record):
        cell = cell._replace(sample=CALLS[record.is_harvested])
    return cell


def step_of_record(record: ResultRecord) -> str | None:
    """The step of a variant. Generated inputs share one step, as the order of their defects may change."""
    return GENERATED if record.is_generated else record.place.variant


def is_call(record: ResultRecord) -> bool:
    """Whether a case is a call in some test. All such calls are known only after all tests have run."""
    return record.by_hand or record.is_harvested


def cell_of(place: Place) -> Cell:
    """The cell of a case of a mark. Its device has no index: it is `cuda` for every GPU."""
    sample = place.sample
    if place.variant is not None and place.variant.partition(".")[0] == GENERATED:
        sample = DRAWN
    elif sample is not None and re.fullmatch(r"(error)?\d+", sample):
        sample = UNNAMED
    return Cell(
        device=place.device and place.device.partition(":")[0],
        dtype=place.dtype,
        requires_grad=place.requires_grad,
        layout=place.layout,
        sample=sample,
        kind=PLAIN if place.variant is None else VARIANT,
    )


@dataclass(frozen=True)
class Entry:
    """A recorded failure.

    Args:
        key: the op, the check and the finding.
        lists: by dimension, the values that are covered. Every combination of them is covered.
        steps: the steps of variants that are covered; None for all.
        comment: why the failure is not fixed.
    """

    key: Key
    lists: Mapping[str, Values]
    steps: frozenset[str] | None = None
    comment: str = ""

    def covers(self, cell: Cell, step: str | None) -> bool:
        """Whether the entry covers a case with this cell and, if it is a variant, this step."""
        for name, value in zip(DIMENSIONS, cell, strict=True):
            values = self.lists[name]
            if values is not None and value not in values:
                return False
        return step is None or self.steps is None or step in self.steps


def new_entry(key: Key, failing: Iterable[Cell], steps: set[str], seen: Iterable[Cell]) -> Entry:
    """The entry of a finding that the file does not have.

    Args:
        failing: the cells with the finding.
        steps: the steps of the variants with the finding.
        seen: all cells of the op and the check; a dimension in which all of them fail has no list.
    """
    cells, all_cells = [*failing], [*seen]
    lists = {name: _values(cells, name) for name in DIMENSIONS}
    folded = {name: fold(name, lists[name], _values(all_cells, name)) for name in DIMENSIONS}
    return Entry(key, folded, few(steps) if lists["kind"] == frozenset({VARIANT}) else None)


def fold(name: str, values: frozenset[Value], all_values: frozenset[Value]) -> Values:
    """The list of a dimension; None if it has every value.

    Devices are always listed, because machines differ. So is a single dtype, which is often that of the
    session.
    """
    least = {"device": None, "kind": None, "dtype": 2}.get(name, 1)
    return (
        None if least is not None and values == all_values and len(all_values) >= least else values
    )


def few(steps: Iterable[str]) -> frozenset[str] | None:
    """The steps, if there are few enough to list them in an entry."""
    distinct = frozenset(steps)
    return distinct if len(distinct) <= FEW else None


def _values(cells: Iterable[Cell], name: str) -> frozenset[Value]:
    return frozenset(getattr(cell, name) for cell in cells)


def values_of(cells: Iterable[Cell]) -> dict[str, frozenset[Value]]:
    """By dimension, the values that some cells have."""
    listed = [*cells]
    return {name: _values(listed, name) for name in DIMENSIONS}
