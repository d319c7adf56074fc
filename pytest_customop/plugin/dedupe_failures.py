"""The failures as the terminal prints them: a root finding in full, what follows from it in a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ..core.wording import counted
from ..report.causes import Record, case_of, causes
from .session.state import ATTRIBUTE


class Told:
    """The text of a failed item; its first line stands for it in pytest's short summary."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reprcrash = _FirstLine(text)

    def toterminal(self, writer: Any) -> None:
        """Write the whole text, the first line as pytest writes errors."""
        first, _, rest = self.text.partition("\n")
        writer.line(first, red=True, bold=True)
        writer.line(rest)

    def __str__(self) -> str:
        return self.text


class _FirstLine:
    def __init__(self, text: str) -> None:
        self.message = text.partition("\n")[0]

    def __str__(self) -> str:
        return self.message


def dedupe_failures(reports: Iterable[pytest.TestReport], records: Sequence[Record]) -> None:
    """Shorten the texts of failures that follow from others, and name them in those.

    Args:
        reports: the failed ones, as the terminal is about to print them.
        records: every record of the session.
    """
    roots = causes(records)
    told = {
        record["nodeid"]: at
        for at, record in enumerate(records)
        if record["outcome"] in ("failed", "error") and record["check"] not in (None, "body")
    }
    following: dict[int, list[int]] = defaultdict(list)
    for at, root in roots.items():
        following[root].append(at)
    for report in reports:
        at = told.get(report.nodeid, -1)
        if at < 0 or report.when != "call" or len(getattr(report, ATTRIBUTE, ())) != 1:
            continue  # not a check's own item
        text = str(report.longrepr).rstrip()
        if at in roots:
            text = _one_line(records[at], records[roots[at]])
        elif at in following:
            text += _also(records[at], [records[other] for other in following[at]])
        report.longrepr = Told(text)  # type: ignore[assignment]


def _one_line(record: Record, root: Record) -> str:
    head = f"{record['finding']}: {record['message']}"
    same = record["finding"] == root["finding"]
    why = "the same finding is" if same else f"it may follow from {root['finding']},"
    return f"{head}\n{why} told in full at {root['nodeid']}"


def _also(root: Record, others: Sequence[Record]) -> str:
    """`also  compile.static: compile-stride-assert`, and in how many other cases."""
    same_case = [one for one in others if case_of(one) == case_of(root)]
    checks = [
        one["check"] if one["finding"] == root["finding"] else f"{one['check']} ({one['finding']})"
        for one in same_case
    ]
    elsewhere = len({case_of(one) for one in others} - {case_of(root)})
    more = [counted(elsewhere, "more case")] * bool(elsewhere)
    return f"\nalso   {', '.join([*sorted(checks), *more])}"
