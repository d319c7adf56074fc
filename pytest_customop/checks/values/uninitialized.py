"""`values.uninitialized`: the results do not depend on what fresh memory held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.run import Run
from ...core.wording import first_line
from ...findings import CheckFailed, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import (
    CALL,
    Caller,
    first_difference,
    results,
    rounding_explains,
    skip_if_incomparable,
)
from .memory.perturb import EXTREMES, changeable, safe_changes
from .memory.poison import (
    FIRST,
    SECOND,
    Filling,
    filling_lines,
    fresh_memory_filled,
    likely_sizes,
)
from .repeat import check_repeat


@dataclass(frozen=True)
class _Inputs:
    """Arguments to try.

    Args:
        description: how they differ from the sample's, for a message.
        fresh: returns new ones at each call.
        script: the script lines that define them as `some()`.
    """

    description: str
    fresh: Callable[[], Arguments]
    script: str


def check_uninitialized(case: Case) -> None:
    """Call the op with fresh memory filled in two ways."""
    calls = Caller(case)
    skip_if_incomparable(case)
    for trial in _trials(case):
        _compare(calls, trial)


def _trials(case: Case) -> Iterator[_Inputs]:
    yield _Inputs("", case.inputs, "\n\nsome = inputs\n")
    if not case.may_take_other_branches:
        return
    changes = safe_changes(case, EXTREMES[:1])
    if changes and changeable(case.inputs()):
        change = changes[0]
        description = f", with {change.description}"
        script = change.script() + "\n\nsome = changed\n"
        yield _Inputs(description, lambda: change.apply(case.inputs()), script)


def _fail_if_not_repeatable(case: Case) -> None:
    """Fail as `values.repeat` does, except for its notes: few sessions run that check on variants."""
    try:
        check_repeat(case)
    except CheckFailed as failure:
        if failure.finding.note is None:
            raise
    except CheckSkipped:
        pass


def _compare(calls: Caller, trial: _Inputs) -> None:
    case = calls.case
    sizes = likely_sizes(case)

    def run(filling: Filling) -> Run:
        arguments = trial.fresh()
        with fresh_memory_filled(sizes, filling, device=case.placement.device):
            return calls(arguments)

    filling = FIRST
    if run(filling).error is not None:
        filling = FIRST._replace(nan=False)  # torch cannot fill every dtype
    first, again = run(filling), run(filling)
    if first.error is not None or again.error is not None:
        if trial.description:
            return  # the op rejects these values
        reason = f"under torch.use_deterministic_algorithms the op raises {first.error!r}"
        raise skip("checker-limit", first_line(reason))
    if first_difference(results(again), results(first)) is not None:
        if trial.description:
            return
        if case.base_case is not None:
            _fail_if_not_repeatable(case)
        reason = "the op gives other values each time: see values.repeat"
        raise skip("nondeterministic", reason, unjudged=False)
    second = run(SECOND)
    wrong = "the op raises" if second.error else first_difference(results(first), results(second))
    if wrong is None or not _confirmed(run, filling, first):
        return
    if second.error is None and rounding_explains(case, results(first), results(second)):
        return  # the op adds up in varying order: see values.repeat
    raise fail(
        "uninitialized-output",
        f"{case.op.name}{trial.description}: the results depend on what fresh memory held: {wrong}",
        "(first: fresh memory filled with NaN or a fixed byte; second: with another byte)",
        repro=CALL + trial.script + filling_lines(sizes) + _COMPARE,
    )


def _confirmed(run: Callable[[Filling], Run], filling: Filling, first: Run) -> bool:
    """Whether the first filling gives the same results again, and the second filling others."""
    same, second = run(filling), run(SECOND)
    if same.error is not None or first_difference(results(same), results(first)) is not None:
        return False
    return second.error is not None or first_difference(results(second), results(first)) is not None


_COMPARE = """

def with_fresh_memory(byte, nan):
    args, kwargs = some()
    fill(byte, nan)
    return call(args, kwargs)


first = with_fresh_memory(0xA5, True)
second = with_fresh_memory(0x3C, False)
torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
"""

FINDINGS = {
    "uninitialized-output": Explanation(
        meaning="The op returns, or computes with, memory that it allocated and never wrote to.",
        why=(
            "The values are whatever the memory held before: right in a fresh process, where "
            "the system hands out zeros, and wrong later."
        ),
        fix=(
            "Write every element of what torch.empty, new_empty or numpy.empty returns, also "
            "where a mask is off, a value is NaN or a row is left over. Or allocate zeros."
        ),
        before="""
out = torch.empty_like(x)
out[x > 0] = x[x > 0].sqrt()
return out
""",
        after="""
out = torch.zeros_like(x)
out[x > 0] = x[x > 0].sqrt()
return out
""",
        docs=(
            doc_links.DETERMINISTIC,
            doc_links.EMPTY,
        ),
        follows=("out-of-bounds-read", "out-of-bounds-write"),
    ),
}

CHECK = Check(
    name="values.uninitialized",
    summary="the results do not depend on what fresh memory held",
    run=check_uninitialized,
    variants=("shape", "large", "dtype", "positions", "arguments", "pairs"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Results that depend on what fresh memory held. torch's memory is filled with NaN "
        "(`fill_uninitialized_memory`), and blocks that numpy and C are about to hand out are "
        "filled with two different bytes in turn. NaN and infinity among the inputs are tried, too."
    ),
    cannot_see="Blocks of numpy and C above 1 MB are not filled.",
    cost="many calls",
)
