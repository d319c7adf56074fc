"""The death of a child as the result of the item that it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...findings import Finding
from ...global_state.preserve import preserved_state
from ...run.repro import CALL, reproduced_by
from ...run.results import CheckResult
from . import protocol
from .exit_causes import Died, shortened

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


def result_of(planned: PlannedItem, death: Died) -> CheckResult:
    """What came of the item that a child ran when it died."""
    phase = death.phase
    if phase == protocol.START and death.exit_code is not None:
        return _not_started(planned, death)
    where = _WHERE.get(phase, f"under {planned.check_name}")
    what = "the child process" if phase in (protocol.START, protocol.COLLECT) else planned.op
    found = Finding(death.code, f"{what} {death.how} {where}", shortened(death.stderr), death.fix)
    case = planned.case
    # What could not be drawn there is not drawn here.
    drawn = case if phase in (protocol.EAGER, protocol.CHECK, protocol.BODY) else None
    lines = planned.check.repro if phase == protocol.CHECK and planned.check else CALL
    reproduce = reproduced_by(found, lines, drawn) if drawn and phase != protocol.BODY else None
    return CheckResult(
        **_known(planned),
        outcome="failed",
        finding=found.code,
        message=found.message,
        fix=found.fix,
        evidence=found.evidence,
        arguments=_described(drawn) if drawn else (),
        duration=death.seconds,
        reproduce=reproduce,
    )


def _not_started(planned: PlannedItem, death: Died) -> CheckResult:
    """No finding: pytest ended the child's session before any op ran."""
    message = f"the child process of --customop-isolate does not start: exit code {death.exit_code}"
    evidence = shortened(death.stderr)
    return CheckResult(**_known(planned), outcome="error", message=message, evidence=evidence)


def _known(planned: PlannedItem) -> dict[str, Any]:
    """What a result says of its item."""
    case, known = planned.case, planned.record()
    return {
        "op": planned.op,
        "check": planned.check_name,
        "case": case.id if case else planned.id,
        "change": case.change if case else "",
        "place": {
            name: known[name] for name in ("device", "dtype", "requires_grad", "layout", "sample")
        },
    }


def _described(case: Case) -> tuple[str, ...]:
    with preserved_state():
        return tuple(case.describe())
