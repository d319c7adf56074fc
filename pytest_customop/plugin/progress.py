"""The details that `-v` adds to each item while the session runs: op, findings, the first compilation.

The node id, which pytest prints, has the check and the case.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..core.wording import counted, printable
from .session.carried import attached, is_first_compilation

if TYPE_CHECKING:
    from ..run.record import ResultRecord

# As the hook returns it: category, letter, and word, with or without its markup.
Status = tuple[str, str, "str | tuple[str, dict[str, bool]]"]

_LONG = 5.0  # seconds from which the duration of an item is printed
_COMPILES = "(the first compilation may take a minute) ..."


def show_progress(config: pytest.Config) -> None:
    """Register the hooks, if pytest prints a line for each item."""
    if config.get_verbosity("test_cases") > 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "customop-progress")


class Progress:
    """The plugin object that has the hooks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_running = True

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> Generator[None, Status, Status]:
        """Add the details of the item to the word. The summary at the end calls this hook again."""
        category, letter, word = yield
        records = attached(report) if self._is_running and word else []
        if not records or records[0].by_hand:
            return category, letter, word
        details = printable(_about(records, report.duration))
        if isinstance(word, tuple):
            return category, letter, (f"{word[0]} {details}", word[1])
        return category, letter, f"{word} {details}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Announce the first compilation of a process, which loads and sets up the compiler."""
        if not is_first_compilation(report):
            return
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        worker = getattr(report, "node", None)
        if worker is None:  # pytest has printed the node id, and prints the outcome after this
            terminal.write(f"{_COMPILES} ", flush=True)
        else:
            terminal.write_line(f"[{worker.gateway.id}] {report.nodeid} {_COMPILES}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Add nothing to the words in the summary."""
        self._is_running = False


def _about(records: Sequence[ResultRecord], seconds: float) -> str:
    """`mylib::crop 14 variants: fake-stride-mismatch`, and the duration if it is long."""
    text = records[0].op
    variants = sum(record.is_variant for record in records)
    if variants:
        text += f" {counted(variants, 'variant')}"
    codes = dict.fromkeys(record.finding.code for record in records if record.finding is not None)
    if codes:
        text += f": {', '.join(codes)}"
    return f"{text} in {seconds:.0f} s" if seconds >= _LONG else text
