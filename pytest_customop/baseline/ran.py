"""The results of a session by op and check: which cells it judged, how, and which it did not finish."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..run.record import ResultRecord
from .entry import Cell, cell_of_record, is_call, step_of_record

_CLEAN = ("passed", "noted", "xpassed")
# How many cases there are, by op, check and cell.
Counts = Mapping[tuple[str, str, Cell], int]


@dataclass
class OfCheck:
    """The results of one check of one op. A case is given by its cell and, for a variant, its step.

    Args:
        failing: by finding, the cases that have it and that only the baseline may expect.
        expected: by finding, the other cases that have it: the mark or pytest's `xfail` expects them.
        clean: the cases that were judged without a finding, or with a note.
        unfinished: the cells with cases that did not run, or have no verdict.
    """

    failing: dict[str, set[tuple[Cell, str | None]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    expected: dict[str, set[tuple[Cell, str | None]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    clean: set[tuple[Cell, str | None]] = field(default_factory=set)
    unfinished: set[Cell] = field(default_factory=set)

    def failing_with(self, finding: str) -> set[tuple[Cell, str | None]]:
        """The cases with a finding, expected or not."""
        return self.failing.get(finding, set()) | self.expected.get(finding, set())

    def judged_without(self, finding: str) -> set[tuple[Cell, str | None]]:
        """The cases that were judged and do not have this finding."""
        return (self.clean | self.failing_otherwise(finding)) - self.failing_with(finding)

    def failing_otherwise(self, finding: str) -> set[tuple[Cell, str | None]]:
        """The cases that do not have this finding, but another one."""
        case_sets = (cases for kind in (self.failing, self.expected) for cases in kind.values())
        return {case for cases in case_sets for case in cases} - self.failing_with(finding)

    @property
    def cells(self) -> set[Cell]:
        """The cells with cases that were judged, and the unfinished cells."""
        sets = (*self.failing.values(), *self.expected.values(), self.clean)
        return self.unfinished | {cell for cases in sets for cell, _ in cases}


def seen(
    records: Iterable[ResultRecord],
    collected: Counts,
    *,
    left_out: bool = False,
    calls_open: bool = False,
) -> dict[tuple[str, str], OfCheck]:
    """The results of a session, by op and check.

    Args:
        records: the records of the session.
        collected: the cases that it collected, including those that it does not run.
        left_out: whether cells may have cases that were not collected. Then no cell counts as finished.
        calls_open: whether some tests have not run. They may make other calls, by `customop_check` or
            harvested ones.
    """
    by_check: dict[tuple[str, str], OfCheck] = defaultdict(OfCheck)
    ended: Counter[tuple[str, str, Cell]] = Counter()
    for record in records:
        if not record.check:
            continue
        cell, step = cell_of_record(record), step_of_record(record)
        of_check = by_check[record.op, record.check]
        ended[record.op, record.check, cell] += 1
        if record.outcome in ("failed", "xfailed") and record.finding is not None:
            expected = record.outcome == "xfailed" and not record.in_baseline
            kind = of_check.expected if expected else of_check.failing
            kind[record.finding.code].add((cell, step))
        elif record.outcome in _CLEAN:
            of_check.clean.add((cell, step))
        elif record.outcome != "skipped":
            of_check.unfinished.add(cell)
        if left_out or (calls_open and is_call(record)):
            of_check.unfinished.add(cell)
    for (op, check, cell), count in collected.items():
        if ended[op, check, cell] < count:
            by_check[op, check].unfinished.add(cell)
    return by_check
