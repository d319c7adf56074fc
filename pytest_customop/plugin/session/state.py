"""The state of a session: its settings, which devices are available, and the records of its items."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ...core.suggest import unknown
from ...harvest.notes import HarvestNotes
from ...plan.omissions import Omissions
from ...scan.notes import ScanNotes
from ..read_options import read_settings, validate_settings, where_given
from .carried import attached, error_of
from .coverage_facts import Facts
from .result_hook import ResultHook
from .xdist import NUMBER

if TYPE_CHECKING:
    from ...checks import Registry
    from ...fuzz.inputs import Generated
    from ...plan.items import PlannedItem
    from ...report.coverage import NamespaceCoverage
    from ...run.record import ResultRecord
    from .baseline import SessionBaseline

SESSION: pytest.StashKey[Session] = pytest.StashKey()
PLANNED: pytest.StashKey[PlannedItem] = pytest.StashKey()
# The records of the checks that an item has run so far.
RECORDS: pytest.StashKey[list[ResultRecord]] = pytest.StashKey()
# The records of the variants of an item that an earlier child process has run.
FINISHED: pytest.StashKey[list[ResultRecord]] = pytest.StashKey()

# For an item of variants that should run in a child process, but cannot: how they could be run.
NO_CHILD: pytest.StashKey[str] = pytest.StashKey()

# For an item of a recorded call: the node id of the test that made it first.
HARVESTED: pytest.StashKey[str] = pytest.StashKey()
# For the first such item of a process: how many there are.
COUNT: pytest.StashKey[int] = pytest.StashKey()


def _no_op(value: object) -> None:
    del value


class Session:
    """One pytest session; `config.stash[SESSION]`.

    Attributes:
        settings: the options.
        omissions: what was left out, and which files could not be written.
        harvest: the counts of `--customop-harvest`.
        scan: the results of `--customop-scan`; None without a scan.
        records: the results by node id, op, check, variant, and how often the item had run the check on
            it before.
        unknown_checks: why each check name of the session is unknown; empty for one that is known.
        workers: how many workers xdist's controller has started.
        worker_errors: wrong check names that the workers have found.
        coverage_facts: what is registered, and what was deselected.
        coverage: what the cases left out of each namespace; known at the end of the session.
        baseline: the baseline of recorded failures; None without one.
        worker_versions: the versions of torch and CUDA in the workers; empty without workers.
        report_lines: where the reports are, for the end of the output.
        result_hook: called with every record that is kept.
        on_phase: called with the name of each phase of an item before the phase begins.
        on_record: called with the record of each variant of an item when the variant has ended.
        on_input: called with each generated input before it is tried.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = read_settings(config)
        self.omissions = Omissions()
        self.harvest = HarvestNotes()
        self.scan: ScanNotes | None = None
        self.records: dict[tuple[str, str, str, str, int], ResultRecord] = {}
        self.unknown_checks: dict[str, str] = {}
        self.workers = 0
        self.worker_errors: set[str] = set()
        self.baseline: SessionBaseline | None = None
        self.worker_versions: dict[str, str | None] = {}
        self.coverage_facts = Facts()
        self.coverage: Sequence[NamespaceCoverage] = ()
        self.report_lines: list[str] = []
        self.result_hook = ResultHook(config)
        self.on_phase: Callable[[str], None] = _no_op
        self.on_record: Callable[[ResultRecord], None] = _no_op
        self.on_input: Callable[[Generated], None] = _no_op
        self._begun: dict[str, list[ResultRecord]] = {}
        self._absent: dict[str, str | None] = {}
        self._registries: dict[frozenset[int], Registry] = {}
        self._ini_validated = False

    def validate_command_line(self) -> None:
        """Raise `pytest.UsageError` for a value that is not allowed there."""
        try:
            validate_settings(self.config, self.settings, on_command_line=True)
        except ValueError as wrong:
            raise pytest.UsageError(str(wrong)) from None

    def validate_ini(self) -> None:
        """Raise `ValueError` for values of the ini file; called at the first marked test."""
        if not self._ini_validated:
            validate_settings(self.config, self.settings, on_command_line=False)
            self._ini_validated = True

    def why_absent(self, device: str) -> str | None:
        """Why a device is not available, or None; determined once per device."""
        from ...run.devices import why_absent

        if device not in self._absent:
            self._absent[device] = why_absent(device, self.config.hook)
        return self._absent[device]

    @property
    def worker(self) -> int | None:
        """The number of this worker among xdist's, from 0; None outside of a worker."""
        number: int | None = getattr(self.config, "workerinput", {}).get(NUMBER)
        return number

    def use_own_device(self, request: pytest.FixtureRequest, device: str) -> None:
        """Let `cuda` mean this worker's own device until the test that requests this has ended."""
        if self.worker is None or device == "cpu":
            return
        from ...run.devices import worker_devices

        stack = contextlib.ExitStack()
        stack.enter_context(worker_devices([device], self.worker))
        request.addfinalizer(stack.close)

    def registry(self, hook: Any) -> Registry:
        """The checks that a node sees: the package's, and those of plugins and of its conftests."""
        from ...plan.selection import registry_from

        key = frozenset(id(i.plugin) for i in hook.pytest_customop_register_checks.get_hookimpls())
        if key not in self._registries:
            self._registries[key] = registry_from(hook)
        return self._registries[key]

    def note_unknown_checks(self, registry: Registry) -> None:
        """Remember which of the session's check names are unknown so far."""
        for name in self.settings.checks or ():
            wrong = registry.unknown([name])
            if wrong is None:
                self.unknown_checks[name] = ""
            else:
                option = where_given(self.config, "checks")
                self.unknown_checks.setdefault(name, f"{option}: {wrong}")

    def wrong_names(self) -> list[str]:
        """The errors in the session's names of checks and variants, after the collection."""
        wrong = [wrong for wrong in self.unknown_checks.values() if wrong]
        return [*wrong, *self._unknown_steps()]

    def _unknown_steps(self) -> list[str]:
        derived = {step for omitted in self.omissions.variants.values() for step in omitted.steps}
        unknown_steps = set(self.settings.variant_steps or ()) - derived
        if not unknown_steps or not self.omissions.variants:
            return []
        option = where_given(self.config, "variant")
        return [f"{option}: {unknown('variant', step, derived)}" for step in sorted(unknown_steps)]

    def exit_status(self, status: int) -> int:
        """The final status of the session, given the one that pytest found."""
        if self.worker_errors:
            return pytest.ExitCode.USAGE_ERROR
        shard = self.omissions.shard
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and shard and shard.any_items:
            status = pytest.ExitCode.OK  # they are in other shards
        stale = self.baseline is not None and self.baseline.why_failed
        failed = bool(stale or self.result_hook.error or self.omissions.unwritten)
        failed = failed or any(namespace.fails for namespace in self.coverage)
        if status == pytest.ExitCode.OK and failed:
            return pytest.ExitCode.TESTS_FAILED
        return status

    def record_report(self, report: pytest.TestReport) -> None:
        """Keep the records that a report carries.

        Records of the setup are kept aside until the item ends, in case its process ends first.
        """
        carried = attached(report)
        if not carried and report.nodeid not in self._begun:
            return  # not an item of this plugin
        if report.when == "setup" and carried:
            self._begun[report.nodeid] = carried
        elif report.when in ("call", "teardown"):
            self._finish(report, carried)
        else:
            self._record_crash(report)

    def _finish(self, report: pytest.TestReport, carried: list[ResultRecord]) -> None:
        begun = self._begun.get(report.nodeid, [])
        if report.when == "call":
            self._begun[report.nodeid] = []
            self._keep(report.nodeid, carried)
            return
        self._begun.pop(report.nodeid, None)
        # Without a call, the item was skipped, or its setup failed.
        self._keep(report.nodeid, [record for record in begun if record.outcome != "pending"])
        if report.failed:
            failed = [_as_error(record, report) for record in carried]
            self._keep(
                report.nodeid, [record for record in failed if not self._has_failed(report, record)]
            )

    def _has_failed(self, report: pytest.TestReport, record: ResultRecord) -> bool:
        """Whether there is a finding already, which a failing teardown must not hide."""
        return any(
            known.outcome in ("failed", "error")
            for key, known in self.records.items()
            if key[:3] == (report.nodeid, record.op, record.check or "")
        )

    def _record_crash(self, report: pytest.TestReport) -> None:
        """Record a report without a phase: a worker died while it ran this item."""
        for record in self._begun.pop(report.nodeid, []):
            self._keep(report.nodeid, [_as_error(record, report)])

    def _keep(self, nodeid: str, records: Iterable[ResultRecord]) -> None:
        runs: Counter[tuple[str, str, str]] = Counter()
        for record in records:
            op, check, variant = key = (record.op, record.check or "", record.place.variant or "")
            self.records[nodeid, op, check, variant, runs[key]] = record
            self.result_hook(record)
            runs[key] += 1  # a test may run a check by hand several times

    def record_unfinished(self) -> None:
        """Turn items that began and never ended into errors, at the end of the session."""
        for nodeid, begun in self._begun.items():
            for record in begun:
                lost = replace(record, outcome="error", message="interrupted while it ran")
                self._keep(nodeid, [lost if record.outcome == "pending" else record])
        self._begun.clear()


def _as_error(record: ResultRecord, report: pytest.TestReport) -> ResultRecord:
    message = record.message if record.finding else error_of(report)
    return replace(record, outcome="error", message=message)
