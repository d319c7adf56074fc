"""What a check reports on a sample, for its variants: the same finding is reported once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..cases.case import Case
from ..checks import Check
from ..core import rng
from ..declare.variant import JOINT
from ..findings import WITHIN_ROUNDING, CheckFailed, CheckSkipped, Finding
from .alias_rejection import alias_rejection
from .judgement import Note, note_for


class _Answer(NamedTuple):
    """The report of a check on a sample's own case: the code of the finding, and the code of its note."""

    code: str | None = None
    note: str | None = None


# The report of each check, identified by its function, on the cases of samples.
_answers: WeakKeyDictionary[Case, dict[Callable[[Case], None], _Answer]] = WeakKeyDictionary()


def run_and_remember(check: Check, case: Case) -> None:
    """Run a check, and remember what it reports on a sample's own case."""
    rng.seed(case.seed)
    try:
        check.run(case)
    except CheckFailed as failure:
        _remember(check, case, _Answer(failure.finding.code, failure.finding.note))
        raise
    except CheckSkipped:
        _remember(check, case, _Answer())
        raise
    _remember(check, case, _Answer())


def _remember(check: Check, case: Case, answer: _Answer) -> None:
    if case.base_case is None:
        _answers.setdefault(case, {})[check.run] = answer


# For the case of a sample: the check, the step and the code of each finding on its variants.
_on_variants: WeakKeyDictionary[Case, set[tuple[Callable[[Case], None], str, str]]] = (
    WeakKeyDictionary()
)


def step_with(base: Case, variant: str, finding: Finding, check: Check) -> str | None:
    """The step of a variant with several steps for which alone a check has found the same; or None."""
    known = _on_variants.setdefault(base, set())
    steps = variant.split(JOINT)
    if len(steps) == 1:
        known.add((check.run, variant, finding.code))
        return None
    return next((step for step in steps if (check.run, step, finding.code) in known), None)


def is_reported_on(base: Case, finding: Finding, check: Check) -> bool:
    """Whether a check reports the finding of a variant on the sample's own case too.

    A difference within rounding on the sample does not cover a larger one on the variant.
    """
    answer = _answer_on(base, check)
    smaller = answer.note == WITHIN_ROUNDING and finding.note != WITHIN_ROUNDING
    return answer.code == finding.code and not smaller


def _answer_on(base: Case, check: Check) -> _Answer:
    """The report of a check on a sample's own case; the check runs if it has not run yet."""
    if check.run not in _answers.get(base, {}):
        try:
            if base.eager.error is None:
                run_and_remember(check, base)
            else:
                found_there = alias_rejection(base, base.eager.error)
                _remember(check, base, _Answer(found_there.code if found_there else None))
        except (CheckFailed, CheckSkipped):
            pass  # remembered
        finally:
            base.release()
    return _answers[base][check.run]


def note_of_estimate(check: Check, case: Case, finding: Finding) -> Note | None:
    """The note of a wrong gradient on a variant, if the sample's gradient may be an estimate on purpose.

    On the sample, the check sees that the op is a step function. On a variant the steps may be too large
    to be seen, or only one argument requires gradients.
    """
    base = case.base_case
    if base is None or finding.code != "gradient-mismatch":
        return None
    step = "gradient-of-a-step-function"
    if _answer_on(base, check).code != step:
        return None
    return note_for(base, replace(finding, code=step, case=None))
