"""The cases that a session has collected, including those that it does not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..plan.place import Place
from .entry import Cell, cell_of


class Collected:
    """The cases of all tests, by op, check and cell.

    Attributes:
        ops: the ops that have a test.
        partial: whether there may be tests that were not collected, or that do not run.
        merged: whether a worker has sent what it collected; the controller of xdist collects nothing.
    """

    def __init__(self) -> None:
        self.ops: set[str] = set()
        self.partial = False
        self.merged = False
        self._by_test: dict[str, Counter[tuple[str, str, Cell]]] = {}

    def add(self, test: str, op_checks_places: Iterable[tuple[str, str, Place]]) -> None:
        """Add the cases of a test, each with its op and check; a test that is added again counts once.

        Args:
            test: its name.
            op_checks_places: the check is empty for an item that runs none.
        """
        counts = self._by_test[test] = Counter()
        for op, check, place in op_checks_places:
            self.ops.add(op)
            if check:
                counts[op, check, cell_of(place)] += 1

    @property
    def counts(self) -> Counter[tuple[str, str, Cell]]:
        """How many cases there are, by op, check and cell."""
        total: Counter[tuple[str, str, Cell]] = Counter()
        for counts in self._by_test.values():
            total.update(counts)
        return total

    @property
    def cells(self) -> dict[tuple[str, str], set[Cell]]:
        """By op and check, the cells of the cases."""
        cells: dict[tuple[str, str], set[Cell]] = {}
        for op, check, cell in self.counts:
            cells.setdefault((op, check), set()).add(cell)
        return cells

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which a worker can send."""
        rows = [[op, check, list(cell), count] for (op, check, cell), count in self.counts.items()]
        return {"counts": rows, "ops": sorted(self.ops), "partial": self.partial}

    def merge(self, sent: Mapping[str, Any]) -> None:
        """Take over what a worker has sent; every worker collects the same."""
        self.merged = True
        self._by_test[""] = Counter(
            {(op, check, Cell(*cell)): count for op, check, cell, count in sent["counts"]}
        )
        self.ops |= set(sent["ops"])
        self.partial = self.partial or sent["partial"]
