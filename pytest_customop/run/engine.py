"""Run one check on one case: global state preserved, every exception turned into a result."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from ..cases.case import Case
from ..checks import Check
from ..compat.op_calls import unobserved
from ..core.lost_device import error_of
from ..core.tracebacks import (
    ends_test,
    error_line,
    traceback_text,
)
from ..core.watchdog import LimitExceeded
from ..declare.mistakes import MarkError
from ..findings import CheckFailed, CheckSkipped, Finding, skip
from ..global_state.preserve import preserved_state
from ..global_state.shared_context import in_shared_context
from ..plan.items import place_of
from .eager_error import eager_finding
from .finding_records import finding_record
from .hangs import finding_of, skip_if_waiting
from .judgement import note_for
from .lost_devices import device_kept, skip_if_lost
from .repro import CALL, Script, reproduced_by
from .results import CheckResult
from .sample_reports import is_reported_on, note_of_estimate, run_and_remember, step_with
from .threads import one_thread_for_variant
from .variant_validity import VariantRejected, skip_if_rejected


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
            evidence=_ADVICE.format(check=check.name) + traceback_text(error, whole=True),
        )


_ADVICE = (
    "This is a mistake in the check, and says nothing about the op. Please report it to the authors of "
    "the check; --customop-checks=-{check} leaves it out.\n\n"
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
                    finding = eager_finding(case, case.eager.error)
                    return _found(passed, finding, check, case, reproduced_by(finding, CALL, case))
            _skip_without_formula(check, case)
            if not was_kept:
                restore()  # the check starts from the same state whether or not the result was kept
        on_phase("check")
        with device_kept(case, check.name):
            run_and_remember(check, case)
    except CheckFailed as failure:
        finding = failure.finding
        if case.base_case is not None and error_of(case.placement.device) is None:
            if is_reported_on(case.base_case, finding, check):
                place = f"sample {case.base_case.sample_id} itself"
                raise _reported("as-sample", finding, place) from None
            step = step_with(case.base_case, case.variant or "", finding, check)
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


def _found(
    passed: CheckResult,
    finding: Finding,
    check: Check,
    case: Case,
    reproduce: Callable[[str], Script] | None,
) -> CheckResult:
    """The result of a check that reports a finding: failed, or noted."""
    note = note_for(case, finding) or note_of_estimate(check, case, finding)
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
