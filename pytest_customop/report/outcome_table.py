"""The table of outcomes in the terminal: a row per op, a column per family of checks, one for variants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ..core.tables import aligned
from ..run.record import ResultRecord

VARIANTS = "variants"  # the last column
_SHORT = {"passed": "ok", "failed": "failed", "error": "error", "skipped": "skip"}
_ORDER = ("failed", "error", "passed", "noted", "skipped", "xfailed", "xpassed")
_NARROWEST = 40  # characters that are left beside the names of ops

Counts = Mapping[str, Mapping[str, Counter[str]]]


def outcome_table(records: Iterable[ResultRecord], width: int) -> list[str]:
    """The lines of the table.

    Args:
        records: one or more.
        width: the width for columns; if they do not fit, the families of an op follow each other.
    """
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for record in records:
        column = VARIANTS if record.is_variant else _family(record)
        cell = counts[record.op][column]
        # Skipped variants are in the lines below the table.
        cell[record.outcome] += not record.is_variant or record.outcome != "skipped"
    names = {
        name for of_op in counts.values() for name, counter in of_op.items() if counter.total()
    }
    columns = [*sorted(names - {VARIANTS}), *sorted(names & {VARIANTS})]
    rows = [["op", *columns]]
    rows += [
        [op, *(_cell(counts[op][column]) or "-" for column in columns)] for op in sorted(counts)
    ]
    table = aligned(rows)
    return table if max(map(len, table)) <= width else _in_lines(counts, columns, width)


def _family(record: ResultRecord) -> str:
    return (record.check or "not run").partition(".")[0]


def _cell(counter: Counter[str]) -> str:
    return ", ".join(
        f"{counter[outcome]} {_SHORT.get(outcome, outcome)}"
        for outcome in _ORDER
        if counter[outcome]
    )


def _in_lines(counts: Counts, columns: Iterable[str], width: int) -> list[str]:
    """The families of each op, beside its name if there is room, otherwise below it."""
    names = max(map(len, counts)) + 2
    beside = width - names >= _NARROWEST
    indent = names if beside else 4
    lines: list[str] = []
    for op in sorted(counts):
        cells = [(column, _cell(counts[op][column])) for column in columns]
        filled = _fill([f"{column} {cell}" for column, cell in cells if cell], width - indent)
        start = op if beside else ""
        lines += [] if beside else [op]
        for line in filled:
            lines.append(f"{start:{indent}}{line}")
            start = ""
    return lines


def _fill(cells: Iterable[str], width: int) -> list[str]:
    """Cells in lines; a line ends if the next cell does not fit."""
    lines = [""]
    for cell in cells:
        more = f"{lines[-1]}; {cell}" if lines[-1] else cell
        if lines[-1] and len(more) + 1 > width:
            lines[-1] += ";"
            lines.append(cell)
        else:
            lines[-1] = more
    return lines
