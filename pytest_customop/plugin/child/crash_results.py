"""The end of a child process as the result of the item that it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...findings import Finding
from ...global_state.preserve import preserved_state
from ...run.finding_records import finding_record
from ...run.judgement import note_for
from ...run.repro import CALL, reproduced_by
from ...run.results import CheckResult
from . import protocol
from .exit_causes import ProcessExit, shortened

if TYPE_CHECKING:
    from ...cases.case import Case
    from ...plan.items import PlannedItem

_WHERE = {
    protocol.START: "while it starts",
    protocol.COLLECT: "while it imports the test's file",
    protocol.SETUP: "in the set-up of the test",
    protocol.DRAW: "while its inputs are drawn",
    protocol.EAGER: "in a plain call",
    protocol.BODY: "in the test's own body",
    protocol.TEARDOWN: "in the teardown of the test",
}


def result_of(planned: PlannedItem, ended: ProcessExit) -> CheckResult:
    """The result of the item that a child ran when it ended."""
    phase = ended.phase
    if phase == protocol.START and ended.exit_code is not None:
        return _not_started(planned, ended)
    where = _WHERE.get(phase, f"under {planned.check_name}")
    what = "the child process" if phase in (protocol.START, protocol.COLLECT) else planned.op
    found = Finding(ended.code, f"{what} {ended.how} {where}", shortened(ended.stderr), ended.fix)
    # What could not be drawn there is not drawn here.
    drawn = planned.case if phase in (protocol.EAGER, protocol.CHECK, protocol.BODY) else None
    lines = planned.check.repro if phase == protocol.CHECK and planned.check else CALL
    reproduce = reproduced_by(found, lines, drawn) if drawn and phase != protocol.BODY else None
    note = note_for(drawn, found) if drawn else None
    return CheckResult(
        op=planned.op,
        check=planned.check_name,
        case=planned.case.id if planned.case else planned.id,
        variant_description=planned.case.variant_description if planned.case else "",
        place=planned.place,
        outcome="noted" if note else "failed",
        skip_code=note.code if note else None,
        why_noted=note.reason if note else "",
        found=finding_record(found, planned.check),
        message=found.message,
        evidence=found.evidence,
        arguments=_described(drawn) if drawn else (),
        duration=ended.seconds,
        reproduce=reproduce,
    )


def _not_started(planned: PlannedItem, ended: ProcessExit) -> CheckResult:
    """No finding: pytest ended the child's session before any op ran."""
    return CheckResult(
        op=planned.op,
        check=planned.check_name,
        case=planned.case.id if planned.case else planned.id,
        variant_description=planned.case.variant_description if planned.case else "",
        place=planned.place,
        outcome="error",
        message=f"the child process of --customop-isolate does not start: exit code {ended.exit_code}",
        evidence=shortened(ended.stderr),
    )


def _described(case: Case) -> tuple[str, ...]:
    with preserved_state():
        return tuple(case.describe())
