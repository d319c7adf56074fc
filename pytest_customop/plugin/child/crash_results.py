"""The end of a child process as the result of the check that it ran."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...checks import BODY, Check
from ...core.lost_device import error_of
from ...declare.variant import REJECTED
from ...findings import Finding
from ...global_state.preserve import preserved_state
from ...plan.items import place_of
from ...run.finding_records import finding_record
from ...run.judgement import note_for
from ...run.lost_devices import rejects
from ...run.repro import CALL, plain_call, reproduced_by
from ...run.results import CheckResult
from . import protocol
from .exit_causes import ProcessExit, shortened
from .last_call import with_call

if TYPE_CHECKING:
    from ...cases.case import Case

_WHERE = {
    protocol.START: "while it starts",
    protocol.COLLECT: "while it imports the test's file",
    protocol.SETUP: "in the set-up of the test",
    protocol.DRAW: "while its inputs are drawn",
    protocol.EAGER: "in a plain call",
    protocol.BODY: "in the test's own body",
    protocol.TEARDOWN: "in the teardown of the test",
}


def result_of(
    check: Check | None, case: Case, ended: ProcessExit, call: bytes | None = None
) -> CheckResult:
    """The result of the check that a child ran on a case when it ended.

    Args:
        check: the check; None for the test's body.
        call: the call that the child was in, as `last_call` packs it; None if that is not known.
    """
    phase = ended.phase
    name = check.name if check else BODY
    plain = replace(_plain(name, case), evidence=shortened(ended.stderr))
    stage = _WHERE.get(phase, f"under {name}")
    if phase == protocol.START and ended.exit_code is not None:
        # No finding: pytest ended the child's session before any op ran.
        why = f"the child process of --customop-isolate does not start: exit code {ended.exit_code}"
        return replace(plain, message=why)
    if ended.device_error and rejects(
        case, ended.device_error, in_plain_call=phase != protocol.CHECK
    ):
        message = f"{case.op.name} {ended.how} {stage}"
        return replace(plain, outcome="skipped", skip_code=REJECTED, message=message, evidence="")
    subject = "the child process" if phase in (protocol.START, protocol.COLLECT) else case.op.name
    finding = Finding(ended.code, f"{subject} {ended.how} {stage}", plain.evidence, ended.fix)
    # Inputs that could not be drawn in the child are not drawn here, nor read from a lost device.
    readable = error_of(case.placement.device) is None
    drawn = case if readable and phase in (protocol.EAGER, protocol.CHECK, protocol.BODY) else None
    check_lines = check.repro if phase == protocol.CHECK and check else ""
    lines = check_lines or (plain_call(drawn) if drawn else CALL)
    note = note_for(drawn, finding) if drawn else None
    called = with_call(case, call) if drawn and phase == protocol.CHECK else None
    if called is not None:
        from ...fuzz.paste import with_sample

        drawn, lines = called, CALL
        plain = with_sample(plain, called, listed=False, name=finding.code)
    return replace(
        plain,
        outcome="noted" if note else "failed",
        skip_code=note.code if note else None,
        why_noted=note.reason if note else "",
        found=finding_record(finding, check),
        message=finding.message,
        arguments=_described(drawn) if drawn else (),
        duration=ended.seconds,
        reproduce=reproduced_by(finding, lines, drawn)
        if drawn and phase != protocol.BODY
        else None,
    )


def as_reported(check: Check, case: Case, ended: ProcessExit) -> CheckResult:
    """The skip of a check on a variant whose plain call has ended a child before."""
    return replace(
        result_of(check, case, ended),
        outcome="skipped",
        skip_code="as-reported",
        found=None,
        message=f"a plain call {ended.how}, as reported by the first check of this variant",
        evidence="",
        duration=0.0,
        reproduce=None,
    )


def not_run(check: Check, case: Case, code: str, reason: str) -> CheckResult:
    """The skip of a check on a variant that would need a child of its own."""
    plain = _plain(check.name, case)
    return replace(plain, outcome="skipped", skip_code=code, message=reason)


def _plain(check: str, case: Case) -> CheckResult:
    """A result of a check on a case that says nothing yet."""
    return CheckResult(
        op=case.op.name,
        check=check,
        case=case.id,
        variant_description=case.variant_description,
        place=place_of(case),
        outcome="error",
    )


def _described(case: Case) -> tuple[str, ...]:
    with preserved_state():
        return tuple(case.describe())
