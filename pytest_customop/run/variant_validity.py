"""Run a variant once and classify it: accepted, rejected, hung or out of memory."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..cases.case import Case
from ..cases.fake_run import fake_run, shapes_of
from ..core.tracebacks import error_line, reraise_bug, traceback_text
from ..declare.variant import REJECTED
from ..findings import CheckSkipped, fail
from .alias_rejection import alias_rejection
from .repro import CALL
from .watchdog import LimitExceeded, within_limits


class VariantRejected(CheckSkipped):
    """Raised for a variant that the op rejects.

    Args:
        reason: what the op or its backward raises.
        accepted_by_fake: whether the op's fake kernel accepts it.
    """

    def __init__(self, reason: str, *, accepted_by_fake: bool) -> None:
        text = f"{reason}; its fake kernel accepts it" if accepted_by_fake else reason
        super().__init__(REJECTED, text, unjudged=False)
        self.accepted_by_fake = accepted_by_fake


@dataclass(frozen=True)
class _Rejection:
    """What the op, or its backward, raises."""

    text: str
    accepted_by_fake: bool = False


@dataclass(frozen=True)
class _Failure:
    """A limit that the op exceeds, or a result that torch rejects: the code and texts of the finding."""

    code: str
    text: str
    evidence: str


# What became of each variant's call: None if the op accepts it.
_answers: WeakKeyDictionary[Case, _Rejection | _Failure | None] = WeakKeyDictionary()


def skip_if_rejected(case: Case) -> None:
    """Return if the op accepts a variant. The op is called once a case.

    Raises:
        VariantRejected: if the op or its backward raises: the op decides which arguments are valid.
        CheckFailed: `hang` or `crash`, if the call exceeds a limit of time or memory;
            `output-alias-rejected`, if torch rejects what the op returns.
    """
    if case not in _answers:
        _answers[case] = _classify(case)
    answer = _answers[case]
    if isinstance(answer, _Failure):
        raise fail(answer.code, answer.text, answer.evidence, repro=CALL)
    if isinstance(answer, _Rejection):
        raise VariantRejected(answer.text, accepted_by_fake=answer.accepted_by_fake)


def _classify(case: Case) -> _Rejection | _Failure | None:
    try:
        with within_limits():
            error = case.eager.error
            if error is None:
                return _classify_backward(case)
    except LimitExceeded as overrun:
        text = f"{case.op.name} did not come back: {overrun} ({case.variant_description})"
        return _Failure(overrun.code, text, traceback_text(overrun))
    found = alias_rejection(case, error)
    if found is not None:
        return _Failure(found.code, found.message, found.evidence)
    return _Rejection(f"{case.op.name} raises {error_line(error)}", _fake_accepts(case))


def _classify_backward(case: Case) -> _Rejection | None:
    if not case.requires_grad:
        return None
    try:
        _ = case.eager_gradients
    except Exception as error:  # whatever the author's backward, or autograd for it, raises
        reraise_bug(error)
        return _Rejection(f"the backward of {case.op.name} raises {error_line(error)}")
    return None


def _fake_accepts(case: Case) -> bool:
    try:
        return fake_run(shapes_of(case)).error is None
    except CheckSkipped:  # torch has no fake tensors of this kind
        return False
