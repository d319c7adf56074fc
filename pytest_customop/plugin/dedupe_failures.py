"""Shorten the failures that the terminal prints: root causes in full, their consequences in one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ..report.causes import causes, with_other_ops
from ..report.item_text import composed_text
from ..run.record import ResultRecord
from .session.rerun import id_from_start


class FailureText:
    """The text of a failed item, in place of pytest's own; its first line is in the short summary.

    Args:
        text: the whole text.
        location: file and line of the test.
        brief: whether to print one line only, for `--tb=line`: the location and the first line.
    """

    def __init__(self, text: str, location: str, *, brief: bool) -> None:
        self.text = text
        self.reprcrash = _Crash(text.partition("\n")[0], location)
        self._brief = brief

    def toterminal(self, writer: Any) -> None:
        """Write the whole text, the first line as pytest writes errors."""
        if self._brief:
            return  # pytest writes `reprcrash`
        first, _, rest = self.text.partition("\n")
        writer.line(first, red=True, bold=True)
        writer.line(rest)

    def __str__(self) -> str:
        return self.text


class _Crash:
    """The failure in one line: pytest writes `message` in the summary, all of it with `--tb=line`."""

    def __init__(self, message: str, location: str) -> None:
        self.message = message
        self._location = location

    def __str__(self) -> str:
        return f"{self._location}: {self.message}"


def dedupe_failures(
    reports: Iterable[pytest.TestReport], records: Sequence[ResultRecord], config: pytest.Config
) -> None:
    """Shorten failures that follow from others, and list them in the text of their root cause.

    Args:
        reports: the failed reports that the terminal is about to print. Those of checks are changed.
        records: every record of the session.
        config: determines how the terminal prints.
    """
    printed = [record for record in records if record.text and not record.by_hand]
    roots = with_other_ops(printed, causes(printed))
    positions: dict[str, list[int]] = defaultdict(list)
    for at, record in enumerate(printed):
        positions[record.nodeid].append(at)
    ids = {nodeid: id_from_start(config, nodeid) for nodeid in positions}
    for report in reports:
        if report.when != "call":
            continue
        text = composed_text(printed, positions.get(report.nodeid, ()), roots, ids)
        if text is None:
            continue
        path, line, _ = report.location
        location = f"{id_from_start(config, path)}:{(line or 0) + 1}"
        report.longrepr = FailureText(text, location, brief=config.option.tbstyle == "line")  # type: ignore[assignment]
