"""The baseline file of a session: read at its start, compared with each failure, updated at its end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...baseline.collected import Collected
from ...baseline.entry import Entry
from ...baseline.expected import with_baseline
from ...baseline.file import Baseline
from ...baseline.merge import Merged, merge
from ...baseline.on_disk import BaselineError, parsed, read_text, update, validate_writable
from ...baseline.ran import seen
from ...baseline.unmatched import unmatched
from ...plan.place import Place
from ...report.baseline import stale_lines, undecided_lines, update_lines
from ..fixture_names import CELL

if TYPE_CHECKING:
    from ...plan.items import PlannedItem
    from ...run.record import ResultRecord
    from ...settings import Settings

# Where a worker of xdist, and a child process, find the text that the session began with.
SENT = "customop_baseline"
_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def load(config: pytest.Config, settings: Settings) -> SessionBaseline | None:
    """The baseline that the options name.

    Raises:
        pytest.UsageError: for a file that is missing or is not a baseline, or that should be updated and
            cannot be.
    """
    path = settings.baseline
    if path is None:
        for value, flag in (
            (settings.update_baseline, "--customop-update-baseline"),
            (settings.baseline_strict, "--customop-baseline-strict"),
        ):
            if value:
                raise pytest.UsageError(f"{flag}: of which file? give --customop-baseline=PATH")
        return None
    name = _shown(path, config.invocation_params.dir)
    sent = getattr(config, "workerinput", {})
    try:
        text = sent[SENT] if SENT in sent else read_text(path, name)
        if text is None and not settings.update_baseline:
            raise BaselineError(
                f"{name}: there is no such file; --customop-update-baseline records one"
            )
        baseline = parsed(text, name)
        if settings.update_baseline and SENT not in sent:
            validate_writable(path, name)
    except BaselineError as error:
        raise pytest.UsageError(str(error)) from None
    return SessionBaseline(config, name, path, text, baseline, settings)


def _shown(path: Path, folder: Path) -> str:
    with contextlib.suppress(ValueError):  # on another drive
        return Path(os.path.relpath(path, folder)).as_posix()
    return str(path)


class SessionBaseline:
    """The baseline of one session; also a plugin that notices what the session leaves out.

    Args:
        config: of the session.
        name: the name of the file in messages.
        path: of the file.
        text: of the file at the start; None if there was none.
        baseline: its content.
        settings: of the session.
    """

    def __init__(
        self,
        config: pytest.Config,
        name: str,
        path: Path,
        text: str | None,
        baseline: Baseline,
        settings: Settings,
    ) -> None:
        self.name = name
        self.text = text
        self.collected = Collected()
        self._config = config
        self._path = path
        self._baseline = baseline
        self._settings = settings
        self._merged: Merged | None = None
        self._unmatched: list[Entry] = []
        self._maybe_fixed = 0

    def collect(self, nodeid: str, planned: Sequence[PlannedItem]) -> None:
        """Add the items of a test, before any are deselected."""
        of_body = any(item.is_body for item in planned)
        self.collected.add(f"{nodeid} body" if of_body else nodeid, _places(planned))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notice files that are skipped or cannot be imported: they may have tests of any op."""
        self.collected.partial |= not report.passed

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Notice tests that do not run. An item without content does not count."""
        if not _is_own_choice(self._config):
            self.collected.partial |= any(not _is_empty(item) for item in items)

    def with_baseline(self, record: ResultRecord) -> ResultRecord:
        """The record of a check with the outcome that the baseline gives it."""
        updates = self._settings.update_baseline
        return with_baseline(record, self._baseline, self.name, update=updates)

    def finish(self, session: pytest.Session, records: Iterable[ResultRecord]) -> None:
        """Compare the entries with the results, and update the file if the options say so.

        Raises:
            BaselineError, OSError: if the file cannot be updated. It stays as it was.
        """
        settings, collected, results = self._settings, self.collected, [*records]
        interrupted = session.exitstatus not in _ENDED or bool(
            session.shouldstop or session.shouldfail
        )
        left_out = settings.leaves_out
        # A controller of xdist whose workers were killed.
        left_out |= self._config.pluginmanager.has_plugin("dsession") and not collected.merged
        everything = _collects_everything(self._config) and not (
            collected.partial or left_out or interrupted or settings.shard
        )
        ran = seen(results, collected.counts, left_out=left_out, calls_open=not everything)

        def merged_with(baseline: Baseline) -> Merged:
            entries = baseline.entries
            return merge(entries, ran, records=settings.update_baseline, complete=everything)

        if settings.update_baseline:
            self._merged = update(self._path, self.name, merged_with)
        else:
            self._merged = merged_with(self._baseline)
        if not (everything or left_out or interrupted):
            whole = seen(results, collected.counts)
            merged = merge(self._merged.entries, whole, records=False)
            self._maybe_fixed = sum(change.is_fixed for change in merged.changes)
        if everything:
            cells = collected.cells
            for key, of_check in ran.items():
                cells.setdefault(key, set()).update(of_check.cells)
            ops = collected.ops | {op for op, _ in ran}
            entries = self._merged.entries
            self._unmatched = unmatched(entries, ops, cells, all_checks=settings.checks is None)

    @property
    def why_failed(self) -> str | None:
        """Why the session fails because of its baseline; None if it does not."""
        if self._merged is None or not self._settings.baseline_strict:
            return None
        stale = sum(change.is_fixed for change in self._merged.changes)
        if not stale or self._settings.update_baseline:
            return None
        entries = "1 entry that no longer fails" if stale == 1 else f"{stale} that no longer fail"
        return f"{self.name} has {entries} (--customop-baseline-strict)"

    def lines(self) -> list[str]:
        """The lines of the summary."""
        if self._merged is None:
            return []
        if self._settings.update_baseline:
            lines = update_lines(self.name, self._merged, self._unmatched)
        else:
            lines = stale_lines(self.name, self._merged.changes, self._unmatched)
        return [*lines, *undecided_lines(self.name, self._maybe_fixed)]


def _places(planned: Iterable[PlannedItem]) -> Iterator[tuple[str, str, Place]]:
    from ...plan.items import place_of

    for item in planned:
        for place in [place_of(variant.case) for variant in item.variants] or [item.place]:
            yield item.op, item.check_name, place


def _is_empty(item: pytest.Item) -> bool:
    """Whether an item stands for a body, or for checks, that are not selected."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get(CELL, item) is None


def _is_own_choice(config: pytest.Config) -> bool:
    """Whether only the `-m` that the ini file adds to every run deselects tests."""
    option, added = config.option, config.getini("addopts")
    option_names = ("keyword", "deselect", "lf", "stepwise")
    return (
        bool(option.markexpr)
        and option.markexpr in added
        and not any(getattr(option, name, None) for name in option_names)
    )


def _collects_everything(config: pytest.Config) -> bool:
    """Whether no argument or option keeps a file or a test from being collected."""
    if any(config.getoption(name, None) for name in ("lf", "ignore", "ignore_glob")):
        return False
    folder = config.invocation_params.dir
    return all((folder / argument).is_dir() for argument in config.args)
