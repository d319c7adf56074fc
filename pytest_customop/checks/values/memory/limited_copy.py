"""Call an op with other arguments, which may lead it outside its memory, in a copy of the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ....cases.calls_in_copy import run_calls_in_copy
from ....cases.case import Case
from ....cases.crash_risk import crash_risk
from ....core.forked import AVAILABLE, ForkedError, Send
from ....core.process_memory import limit_growth
from ....findings import skip
from .calls import Caller

Answer = TypeVar("Answer")
_SECONDS = 20.0  # for all calls
_MEMORY = 4 * 2**30


def answer_safely(case: Case, ask: Callable[[Case], Answer]) -> Answer:
    """The answer of a function that calls the op of a case; in a copy if a call could end this process.

    Args:
        ask: the function, as in `answer_of_copy`; in this process it gets the case unchanged.

    Raises:
        CheckSkipped: as `answer_of_copy` does.
    """
    risk = crash_risk(case.op, case.placement.device)
    return answer_of_copy(case, ask) if risk else ask(case)


def answer_if_taken(
    case: Case, ask: Callable[[Case], tuple[bool, Answer]], otherwise: str
) -> Answer:
    """The answer of a function, as in `answer_safely`, if the op accepts the arguments that it tries.

    Args:
        ask: the function; returns whether the op accepts them, and its answer.
        otherwise: why there is nothing to check if the op rejects them.

    Raises:
        CheckSkipped: if the op rejects them, and as in `answer_safely`.
    """
    is_taken, answer = answer_safely(case, ask)
    if not is_taken:
        raise skip("nothing-to-check", otherwise, unjudged=False)
    return answer


def answer_of_copy(case: Case, ask: Callable[[Case], Answer], *, memory: int = _MEMORY) -> Answer:
    """The answer of a function that calls the op of a case, in a copy that has little memory and time.

    Args:
        ask: the function; gets the case without gradients, and returns something picklable.
        memory: how many bytes all calls may take in addition.

    Raises:
        CheckSkipped: if there is no copy, or if it ends before the function does.
    """
    if not AVAILABLE or case.placement.device != "cpu":
        reason = "the calls need a copy of the process, on the CPU"
        raise skip("nothing-to-check", reason, unjudged=False)
    plain = replace(case, placement=replace(case.placement, requires_grad=False))

    def work(send: Send) -> None:
        limit_growth(memory)
        Caller(plain)(plain.inputs())
        send(None)  # the op works in a copy
        send(ask(plain))

    try:
        forked = run_calls_in_copy(plain, work, _SECONDS)
    except ForkedError as error:
        reason = f"with other arguments the op raises {error}"
        raise skip("nothing-to-check", reason, unjudged=False) from None
    if forked is None or len(forked.messages) < 2:
        reason = "with other arguments the op does not return"
        raise skip("nothing-to-check", reason, unjudged=False)
    answer: Answer = forked.messages[1]
    return answer
