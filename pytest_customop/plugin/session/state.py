"""What the plugin remembers in a session: settings, availability of devices, and the records.

Records travel as an attribute of pytest's reports, so those of xdist's workers arrive by themselves.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from ...plan.omissions import Notes
from ...settings import NUMBER, read_settings, validate

if TYPE_CHECKING:
    from ...checks import Registry
    from ...plan.items import PlannedItem
    from ...run.results import CheckResult
    from ..child.exit_causes import Died

SESSION: pytest.StashKey[Session] = pytest.StashKey()
PLANNED: pytest.StashKey[PlannedItem] = pytest.StashKey()
RESULTS: pytest.StashKey[list[CheckResult]] = pytest.StashKey()
ATTRIBUTE = "customop"


def _no_op(phase: str) -> None:
    del phase


class Session:
    """One pytest session; `config.stash[SESSION]`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = read_settings(config)  # what was asked for
        self.notes = Notes()  # what there is to say beside the results
        self.records: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        self.unknown_checks: dict[str, str] = {}
        self.workers = 0  # that the controller has started
        self.on_phase: Callable[[str], None] = _no_op  # is told what comes next of an item
        self.hung: dict[int, Died] = {}  # by the ids of cases, plain calls that did not end
        self.told_by_workers: set[str] = set()  # wrong check names, from those of xdist
        self._begun: dict[str, list[dict[str, Any]]] = {}
        self._absent: dict[str, str | None] = {}
        self._registries: dict[frozenset[int], Registry] = {}
        self._ini_validated = False

    def validate_command_line(self) -> None:
        """Raise `pytest.UsageError` for what was given there and is not allowed."""
        self._validate(self._on_command_line, pytest.UsageError)

    def validate_ini(self) -> None:
        """Raise `ValueError` for values of the ini file; called at the first marked test."""
        if not self._ini_validated:
            self._validate(lambda name: not self._on_command_line(name), ValueError)
            self._ini_validated = True

    def _on_command_line(self, name: str) -> bool:
        return bool(self.config.getoption(f"customop_{name}"))

    def _validate(self, given: Callable[[str], bool], error: type[Exception]) -> None:
        try:
            validate(self.settings, given)
        except ValueError as wrong:
            raise error(f"customop: {wrong}") from None

    def why_absent(self, device: str) -> str | None:
        """Why a device is not here, or None; asked once a device."""
        from ...run.devices import why_absent

        if device not in self._absent:
            self._absent[device] = why_absent(device, self.config.hook)
        return self._absent[device]

    @property
    def worker(self) -> int | None:
        """The number of this worker among xdist's, from 0; None outside of one."""
        number: int | None = getattr(self.config, "workerinput", {}).get(NUMBER)
        return number

    def use_own_device(self, request: pytest.FixtureRequest, device: str) -> None:
        """Let `cuda` mean this worker's own device until the test that requests this has ended."""
        if self.worker is None or device == "cpu":
            return
        from ...run.devices import own_devices

        own = contextlib.ExitStack()
        own.enter_context(own_devices([device], self.worker))
        request.addfinalizer(own.close)

    def registry(self, hook: Any) -> Registry:
        """The checks that a node sees: the package's, and those of plugins and of its conftests."""
        from ...plan.selection import registry_from

        key = frozenset(id(i.plugin) for i in hook.pytest_customop_register_checks.get_hookimpls())
        if key not in self._registries:
            self._registries[key] = registry_from(hook)
        return self._registries[key]

    def note_unknown_checks(self, registry: Registry) -> None:
        """Remember which of the session's check names no conftest has brought so far."""
        for name in self.settings.checks or ():
            wrong = registry.unknown([name])
            if wrong is None:
                self.unknown_checks[name] = ""
            else:
                self.unknown_checks.setdefault(name, wrong)

    def wrong_checks(self) -> list[str]:
        """What is wrong with the session's check names, after the collection."""
        return [wrong for wrong in self.unknown_checks.values() if wrong]

    def keep_shard(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Leave the items of the session's shard in the list; returns the others."""
        shard = self.settings.shard
        if shard is None:
            return []
        from ...plan.shards import split
        from ..collection import case_of

        items[:], others, self.notes.shard = split(
            items, case_of, lambda item: item.nodeid, shard, self.settings.durations
        )
        return others

    def exit_status(self, status: int) -> int:
        """The status that the session ends with, of the one that pytest found."""
        if self.told_by_workers:
            return pytest.ExitCode.USAGE_ERROR
        shard = self.notes.shard
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and shard and shard.any_items:
            status = pytest.ExitCode.OK  # they are in other shards
        if status == pytest.ExitCode.OK and self.notes.unwritten:
            return pytest.ExitCode.TESTS_FAILED
        return status

    def record_report(self, report: pytest.TestReport) -> None:
        """Take in what a report carries; a record stands for each check until its item ends."""
        carried: list[dict[str, Any]] = getattr(report, ATTRIBUTE, [])
        if report.when == "setup" and carried:
            self._begun[report.nodeid] = carried
        elif report.when in ("call", "teardown"):
            self._finish(report, carried)
        else:
            self._lost(report)

    def _finish(self, report: pytest.TestReport, carried: list[dict[str, Any]]) -> None:
        begun = self._begun.get(report.nodeid, [])
        if report.when == "call":
            self._begun[report.nodeid] = []
            self._keep(report.nodeid, carried)
            return
        self._begun.pop(report.nodeid, None)
        # The call never came: the item was skipped, or its setup failed.
        self._keep(report.nodeid, [one for one in begun if one["outcome"] != "pending"])
        if report.failed:
            lost = [_ended(one, "error", report) for one in carried]
            self._keep(report.nodeid, [one for one in lost if not self._has_failed(report, one)])

    def _has_failed(self, report: pytest.TestReport, one: dict[str, Any]) -> bool:
        """Whether there is a finding already, which a failing teardown must not hide."""
        known = self.records.get((report.nodeid, one["op"], one["check"] or "", 0), {})
        return known.get("outcome") in ("failed", "error")

    def _lost(self, report: pytest.TestReport) -> None:
        """A report without a phase: a worker died while it ran this item."""
        for one in self._begun.pop(report.nodeid, []):
            self._keep(report.nodeid, [_ended(one, "error", report)])

    def _keep(self, nodeid: str, records: list[dict[str, Any]]) -> None:
        seen: Counter[tuple[str, str]] = Counter()
        for one in records:
            op, check = one["op"], one["check"] or ""
            self.records[nodeid, op, check, seen[op, check]] = {"nodeid": nodeid, **one}
            seen[op, check] += 1  # a test that runs checks by hand may run one several times

    def unfinished(self) -> None:
        """Turn what began and never ended into errors; at the end of the session."""
        for nodeid, begun in self._begun.items():
            for one in begun:
                lost = {**one, "outcome": "error", "message": "interrupted while it ran"}
                self._keep(nodeid, [lost if one["outcome"] == "pending" else one])
        self._begun.clear()


def _ended(record: Mapping[str, Any], outcome: str, report: pytest.TestReport) -> dict[str, Any]:
    message = record["message"] if record["finding"] else last_words(report)
    return {**record, "outcome": outcome, "message": message}


def last_words(report: pytest.TestReport) -> str:
    """One line on a failure: what was raised, or the end of a text that names no exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).strip().partition("\n")[0]
    return (str(report.longreprtext).strip().splitlines() or [""])[-1]
