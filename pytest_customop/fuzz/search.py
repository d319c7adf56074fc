"""Run a check on generated inputs, and shrink those that fail."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky, Unsatisfiable

from ..cases.case import Case
from ..declare.variant import REJECTED
from ..global_state.preserve import preserved_state
from ..plan.fuzz_plan import FuzzPlan
from ..plan.variants.sample_view import SampleView
from ..run.results import CheckResult
from .inputs import Generated, Rules, inputs
from .paste import with_sample

_DEFECTS = 3  # the most of one check; further ones are left for the next run
_UNJUDGED = 20  # if the check could judge none of this many inputs, it does not apply to the op
_SHRINKING = 20.0  # seconds of the processor
_NOT_SHRUNK = ("hang", "crash")  # each further try would take as long
_UNFIT = (REJECTED, "unfit-variant", "costly")  # skips of inputs that do not count
_PHASES = (hypothesis.Phase.reuse, hypothesis.Phase.generate, hypothesis.Phase.shrink)

Run = Callable[[Case], CheckResult]


@dataclass
class Found:
    """The reports of a check on the inputs of one item.

    Args:
        failures: the smallest input of each defect.
        notes: the first input of each note.
        skips: how often each reason kept the check from judging an input, with the last such result.
        accepted: how many inputs the op accepted, including those tried while shrinking.
        rejected: how many inputs were rejected, unfit or too costly.
    """

    failures: list[CheckResult] = field(default_factory=list)
    notes: list[CheckResult] = field(default_factory=list)
    skips: dict[str, tuple[int, CheckResult]] = field(default_factory=dict)
    accepted: int = 0
    rejected: int = 0


class _Fails(Exception):
    """Raised inside Hypothesis if the check fails on an input."""


class _Stop(BaseException):
    """Ends a search at once. It is not an Exception, so that Hypothesis does not treat it as a failure."""


def search(
    plan: FuzzPlan,
    run: Run,
    examples: Path | None,
    on_input: Callable[[Generated], None] | None = None,
) -> Found:
    """Run a check on generated inputs, and shrink those on which it fails.

    Random streams and global settings are restored afterwards.

    Args:
        run: runs the check on a case.
        examples: a folder for failing inputs, which are tried first the next time; None: none is kept.
        on_input: called with each input before the check runs on it.
    """
    searching = _Search(plan, run, on_input or (lambda generated: None))
    with preserved_state():
        for number in range(_DEFECTS):
            if not searching.next_defect(number, examples):
                break
    return searching.found


class _Search:
    def __init__(self, plan: FuzzPlan, run: Run, on_input: Callable[[Generated], None]) -> None:
        self.found = Found()
        self._plan = plan
        self._run = run
        self._on_input = on_input
        self._reported: set[str] = set()
        self._noted: set[tuple[str, str]] = set()
        self._views = [
            SampleView(base.case.op, base.case.sample, base.case.placement) for base in plan.bases
        ]
        self._rules = Rules(
            kinds=plan.kinds,
            within=plan.risk is not None,
            declared_dtypes=plan.declared_dtypes,
            unsupported=plan.unsupported,
        )
        self._smallest: tuple[Generated, CheckResult] | None = None
        self._until = 0.0

    def next_defect(self, number: int, examples: Path | None) -> bool:
        """Search for one more defect; returns whether there is one.

        Args:
            number: how many were found so far.
        """
        self._smallest = None
        left = self._plan.count - self.found.accepted if number else self._plan.count
        if left < 1:
            return False
        settings = hypothesis.settings(
            max_examples=left,
            deadline=None,
            database=None if examples is None else _database(examples, self._plan, number),
            phases=_PHASES,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck),
            verbosity=hypothesis.Verbosity.quiet,
        )

        @hypothesis.given(inputs(self._views, self._rules))
        def finds_nothing(generated: Generated) -> None:
            if self._fails(generated):
                raise _Fails

        # The settings come last: those of `seed` would have no database.
        seeded = settings(hypothesis.seed(self._plan.seed + number)(finds_nothing))
        with contextlib.suppress(_Fails, Unsatisfiable, Flaky, _Stop):
            seeded()
        if self._smallest is None:
            return False
        generated, result = self._smallest
        self._reported.add(_code(result))
        self.found.failures.append(self._with_sample(generated, result))
        return True

    def _fails(self, generated: Generated) -> bool:
        if self._smallest is not None and time.process_time() > self._until:
            raise _Stop
        if not generated.changed:
            hypothesis.reject()
        self._on_input(generated)
        result = self._result(generated)
        if result.outcome == "skipped" and result.skip_code in _UNFIT:
            self.found.rejected += 1
            hypothesis.reject()
        self.found.accepted += 1
        if result.outcome == "skipped":
            count, _ = self.found.skips.get(result.skip_code or "", (0, result))
            self.found.skips[result.skip_code or ""] = (count + 1, result)
            if self.found.accepted == self._skipped() >= _UNJUDGED:
                raise _Stop
        if result.outcome == "noted":
            self._note(generated, result)
        if result.outcome not in ("failed", "error") or _code(result) in self._reported:
            return False
        if self._smallest is None:
            self._until = time.process_time() + _SHRINKING
        elif _code(self._smallest[1]) != _code(result):
            return False  # another defect, which is searched for next
        self._smallest = (generated, result)
        if _code(result) in _NOT_SHRUNK:
            raise _Stop
        return True

    def _skipped(self) -> int:
        return sum(count for count, _ in self.found.skips.values())

    def _note(self, generated: Generated, result: CheckResult) -> None:
        key = (_code(result), result.why_noted)
        if key not in self._noted:
            self._noted.add(key)
            self.found.notes.append(self._with_sample(generated, result, redraw=False))

    def _result(self, generated: Generated, salt: int | None = None) -> CheckResult:
        case = self._case(generated, salt)
        try:
            return self._run(case)
        finally:
            case.release()

    def _case(self, generated: Generated, salt: int | None = None) -> Case:
        at = generated.salt if salt is None else salt
        return self._plan.case(generated.template, generated.variant, at)

    def _with_sample(
        self, generated: Generated, result: CheckResult, redraw: bool = True
    ) -> CheckResult:
        """The result with the input as a line to paste into the mark.

        Args:
            redraw: whether values are left out if the defect does not depend on them.
        """
        code = _code(result)
        others = [generated.salt + by for by in (1, 2)] if redraw else []
        if code in _NOT_SHRUNK:
            others = []
        by_any_values = bool(others) and all(
            _code(self._result(generated, salt)) == code for salt in others
        )
        return with_sample(result, self._case(generated), listed=not by_any_values)


def _database(examples: Path, plan: FuzzPlan, number: int) -> DirectoryBasedExampleDatabase:
    """A database for this item: Hypothesis stores inputs by function, and here that is always the same."""
    key = f"{plan.bases[0].case.op.name} {plan.id} {number}"
    return DirectoryBasedExampleDatabase(examples / hashlib.sha256(key.encode()).hexdigest()[:16])


def _code(result: CheckResult) -> str:
    return result.finding or result.outcome
