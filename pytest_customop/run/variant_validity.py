"""What an op says to a variant of a sample: it takes it, refuses it, or does not come back."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..cases.case import Case
from ..cases.fake_run import fake_run, shapes_of
from ..core.tracebacks import error_line, traceback_text
from ..declare.variant import ACCEPTED_BY_FAKE, REJECTED
from ..findings import fail, skip
from .repro import CALL
from .watchdog import LimitExceeded, time_limited


@dataclass(frozen=True)
class _Answer:
    """Why a variant is not judged; or, with the code of a finding, how it went wrong."""

    text: str
    code: str = ""
    evidence: str = ""


_answers: WeakKeyDictionary[Case, _Answer | None] = WeakKeyDictionary()


def skip_if_rejected(case: Case) -> None:
    """Let a variant pass that the op takes.

    Raises:
        CheckSkipped: `rejected`, if the op or its backward raises: whether a variant is valid is
            the op's word.
        CheckFailed: `hang` or `crash`, if it does not come back.
    """
    if case not in _answers:
        _answers[case] = _ask(case)
    answer = _answers[case]
    if answer is None:
        return
    if answer.code:
        raise fail(answer.code, answer.text, answer.evidence, repro=CALL)
    raise skip(REJECTED, answer.text, unjudged=False)


def _ask(case: Case) -> _Answer | None:
    try:
        with time_limited():
            error = case.eager.error
            if error is None:
                return _backward(case)
    except LimitExceeded as overrun:
        text = f"{case.op.name} did not come back: {overrun} ({case.change})"
        return _Answer(text, overrun.code, traceback_text(overrun))
    text = f"{case.op.name} raises {error_line(error)}"
    return _Answer(text + (ACCEPTED_BY_FAKE if _fake_accepts(case) else ""))


def _backward(case: Case) -> _Answer | None:
    if not case.requires_grad:
        return None
    try:
        _ = case.eager_gradients
    except Exception as error:
        return _Answer(f"the backward of {case.op.name} raises {error_line(error)}")
    return None


def _fake_accepts(case: Case) -> bool:
    try:
        return fake_run(shapes_of(case)).error is None
    except Exception:  # arguments that cannot be faked
        return False
