"""Run one check on one case: global state preserved, every exception turned into a result."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from ..cases.case import Case
from ..checks import Check
from ..compat.op_calls import unobserved
from ..compat.ops import kernel_in_python
from ..core import rng
from ..core.lost_device import error_of
from ..core.tracebacks import (
    ends_test,
    error_line,
    message_line,
    message_of,
    raised_on_purpose,
    traceback_text,
)
from ..core.watchdog import LimitExceeded
from ..declare.mistakes import MarkError
from ..declare.variant import JOINT, REJECTED
from ..findings import WITHIN_ROUNDING, CheckFailed, CheckSkipped, Finding, skip
from ..global_state.preserve import preserved_state
from ..global_state.shared_context import in_shared_context
from ..plan.items import place_of
from .alias_rejection import alias_rejection
from .finding_records import finding_record
from .hangs import finding_of, skip_if_waiting
from .judgement import Note, note_for
from .lost_devices import device_kept, skip_if_lost
from .repro import CALL, Script, reproduced_by
from .results import CheckResult
from .threads import one_thread_for_variant
from .variant_validity import VariantRejected, skip_if_rejected

# Words in messages of native code that does not support gradients. torch's own messages have none of them.
_NO_GRADIENT = re.compile(
    r"not differentiable|no_grad|NoGradGuard|no gradient|inference only|inference-only"
    r"|(not (support|implement)|unsupported).*(gradient|backward|autograd|requires_grad)",
    re.IGNORECASE,
)


def _no_op(phase: str) -> None:
    del phase


def run_check(
    check: Check,
    case: Case,
    on_phase: Callable[[str], None] = _no_op,
    *,
    streams: bool = True,
) -> CheckResult:
    """Run one check on one case, and restore every global state afterwards.

    If the op itself raises on the case, that is the finding, and the check does not run.
    KeyboardInterrupt propagates.

    Args:
        check, case: the check, and the case that it runs on.
        on_phase: called with the name of each phase before it starts: `draw`, `eager`, `check`. The first
            two are left out if an earlier check has kept its results for the case.
        streams: as in `preserved_state`.
    """
    start = time.perf_counter()
    passed = CheckResult(
        op=case.op.name,
        check=check.name,
        case=case.id,
        outcome="passed",
        variant_description=case.variant_description,
        place=place_of(case),
        seed=case.seed,
    )
    with warnings.catch_warnings(), unobserved():
        # A warning of torch's checkers or compilers is not a defect of the op, not even under -W error.
        warnings.simplefilter("ignore")
        result = in_shared_context(_in_preserved_state, check, case, on_phase, streams, passed)
    is_shown = result.outcome in ("failed", "error", "noted")
    arguments = tuple(case.describe()) if is_shown else ()
    return replace(result, arguments=arguments, duration=time.perf_counter() - start)


def _in_preserved_state(
    check: Check, case: Case, on_phase: Callable[[str], None], streams: bool, passed: CheckResult
) -> CheckResult:
    with one_thread_for_variant(case), preserved_state(streams=streams) as restore:
        return _judge(check, case, on_phase, restore, passed)


def _judge(
    check: Check,
    case: Case,
    on_phase: Callable[[str], None],
    restore: Callable[[], None],
    passed: CheckResult,
) -> CheckResult:
    """The result of a check on a case, whatever the check raises.

    Args:
        check, case, on_phase: as in `run_check`.
        restore: resets global state to what it was before the case was drawn.
        passed: the result if the check finds nothing.
    """
    try:
        skip_if_waiting(case.op)
        skip_if_lost(case)
        return _run(check, case, on_phase, restore, passed)
    except LimitExceeded as overrun:
        finding = finding_of(case.op, overrun, case.variant_description)
        return _found(passed, finding, check, case, reproduced_by(finding, CALL, case))
    except CheckSkipped as skipped:
        return replace(
            passed,
            outcome="skipped",
            skip_code=skipped.code,
            message=skipped.reason,
            unjudged=skipped.unjudged,
            accepted_by_fake=isinstance(skipped, VariantRejected) and skipped.accepted_by_fake,
        )
    except MarkError as mistake:
        if case.base_case is not None:
            # The author wrote the mark for the samples: a reference may accept less than the op.
            code = "unfit-variant"
            return replace(passed, outcome="skipped", skip_code=code, message=str(mistake))
        cause = mistake.__cause__
        evidence = traceback_text(cause) if cause is not None else ""
        return replace(passed, outcome="error", message=str(mistake), evidence=evidence)
    except BaseException as error:  # a mistake in the check, or in this package
        if ends_test(error):
            raise
        return replace(
            passed,
            outcome="error",
            message=f"the check broke: {error_line(error)}",
            evidence=traceback_text(error, whole=True),
        )


def _run(
    check: Check,
    case: Case,
    on_phase: Callable[[str], None],
    restore: Callable[[], None],
    passed: CheckResult,
) -> CheckResult:
    """Call the op, then the check. A finding becomes a failure or a note; skips and errors are raised."""
    try:
        if case.error_sample is None:
            was_kept = case.has_run
            if not was_kept:
                on_phase("draw")
                case.draw()
                on_phase("eager")
            with device_kept(case):
                if case.base_case is not None:
                    skip_if_rejected(case)
                elif case.eager.error is not None:
                    return _eager_failure(check, case, case.eager.error, passed)
            _skip_without_formula(check, case)
            if not was_kept:
                restore()  # the check starts from the same state whether or not the result was kept
        on_phase("check")
        with device_kept(case, check.name):
            _run_check(check, case)
    except CheckFailed as failure:
        finding = failure.finding
        if case.base_case is not None and error_of(case.placement.device) is None:
            if _is_reported_on(case.base_case, finding, check):
                place = f"sample {case.base_case.sample_id} itself"
                raise _reported("as-sample", finding, place) from None
            step = _step_with(case.base_case, case.variant or "", finding, check)
            if step is not None:
                raise _reported("as-variant", finding, f"variant {step}") from None
        lines = check.repro if finding.repro is None else finding.repro
        return _found(passed, finding, check, case, reproduced_by(finding, lines, case))
    return passed


def _reported(code: str, finding: Finding, place: str) -> CheckSkipped:
    message = f"{finding.code}, as on {place}, where it is reported"
    return skip(code, message, unjudged=False)


def _skip_without_formula(check: Check, case: Case) -> None:
    """Skip a case with gradients if the op is registered as an op without a formula.

    Collection cannot see this. As for other ops without a formula, few checks run with gradients
    unless the mark requires gradients.
    """
    if not (case.requires_grad and case.op.has_autograd) or check.runs_without_autograd:
        return
    if (check.needs_autograd or not case.asks_gradients) and case.rejects_backward:
        reason = (
            "the op is registered without an autograd formula: its backward is that of "
            "torch::autograd::autogradNotImplementedFallback(), which raises"
        )
        raise skip("no-formula", reason, unjudged=False)


class _Answer(NamedTuple):
    """The report of a check on a sample's own case: the code of the finding, and the code of its note."""

    code: str | None = None
    note: str | None = None


# The report of each check, identified by its function, on the cases of samples.
_answers: WeakKeyDictionary[Case, dict[Callable[[Case], None], _Answer]] = WeakKeyDictionary()


def _run_check(check: Check, case: Case) -> None:
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


def _step_with(base: Case, variant: str, finding: Finding, check: Check) -> str | None:
    """The step of a variant with several steps for which alone a check has found the same; or None."""
    known = _on_variants.setdefault(base, set())
    steps = variant.split(JOINT)
    if len(steps) == 1:
        known.add((check.run, variant, finding.code))
        return None
    return next((step for step in steps if (check.run, step, finding.code) in known), None)


def _is_reported_on(base: Case, finding: Finding, check: Check) -> bool:
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
                _run_check(check, base)
            else:
                found_there = alias_rejection(base, base.eager.error)
                _remember(check, base, _Answer(found_there.code if found_there else None))
        except (CheckFailed, CheckSkipped):
            pass  # remembered
        finally:
            base.release()
    return _answers[base][check.run]


def _note_of_estimate(check: Check, case: Case, finding: Finding) -> Note | None:
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


def _found(
    passed: CheckResult,
    finding: Finding,
    check: Check,
    case: Case,
    reproduce: Callable[[str], Script] | None,
) -> CheckResult:
    """The result of a check that reports a finding: failed, or noted."""
    note = note_for(case, finding) or _note_of_estimate(check, case, finding)
    return replace(
        passed,
        outcome="noted" if note else "failed",
        skip_code=note.code if note else None,
        why_noted=note.reason if note else "",
        found=finding_record(finding, check),
        message=finding.message,
        evidence=finding.evidence,
        picture=finding.picture,
        shown=finding.shown,
        reproduce=reproduce,
    )


def _eager_failure(
    check: Check, case: Case, error: BaseException, passed: CheckResult
) -> CheckResult:
    """The result where the op itself raises on a sample."""
    guessed = not case.asks_gradients and _refuses_gradients(case, error)
    guessed = guessed or not case.op.has_autograd or case.placement.guesses_gradients
    if case.requires_grad and guessed and _works_without_gradients(case):
        reason = f"the op rejects inputs that require gradients ({message_line(error)})"
        raise skip("inference-only", reason, unjudged=False)
    if _is_given_elsewhere(case) and raised_on_purpose(error):
        reason = (
            f"the op rejects the sample's tensors on {case.placement.device}: {error_line(error)}"
        )
        raise skip(REJECTED, reason)
    finding = alias_rejection(case, error)
    if finding is None:
        message = f"{case.op.name} raises {error_line(error)}"
        finding = Finding("eager-raises", message, traceback_text(error))
    return _found(passed, finding, check, case, reproduced_by(finding, CALL, case))


def _is_given_elsewhere(case: Case) -> bool:
    """Whether the author has given real tensors of a sample on another type of device."""
    here = torch.device(case.placement.device).type
    given = [leaf for leaf in case.sample.leaves() if isinstance(leaf, torch.Tensor)]
    return any(tensor.device.type not in ("cpu", here) for tensor in given)


def _refuses_gradients(case: Case, error: BaseException) -> bool:
    """Whether the op raises on purpose for inputs that require gradients, as its Autograd kernel may."""
    if raised_on_purpose(error):
        return True
    native = not kernel_in_python(case.op.overload, torch.device(case.placement.device).type)
    return native and _NO_GRADIENT.search(message_of(error)) is not None


def _works_without_gradients(case: Case) -> bool:
    arguments = case.inputs().map(lambda tensor: tensor.detach())
    return case.run(arguments).error is None
