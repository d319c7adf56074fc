"""`relations.below_zero`: numbers below 0 fall into cells, buckets and steps as those above 0 do."""

from __future__ import annotations

import re

from ....cases.case import Case
from ....cases.documented import sentences
from ....declare.ops import Op
from ....findings import Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import Caller, expression, skip_if_incomparable
from ...values.memory.limited_copy import answer_if_taken
from ..compare import in_double_if_taken
from ..other_numbers import replaceable
from ..scripts import call_lines, position
from .moves import Moves, Truncated, has_integers, judge, judge_across
from .numbers import may_be_below_zero, steps_of, whole_numbers, whole_steps

# A sentence which says that numbers are rounded to 0.
_TO_ZERO = re.compile(
    r"\btoward(s)? (0|zero)\b|\btruncat\w*|\binteger part\b|\bfractions? (is|are) (dropped|cut|lost)",
    re.I,
)
# What numbers fall into. Elsewhere a fraction may be cut off on purpose.
_CELLS = re.compile(
    r"\b(cell|grid|bucket|bin|tile|voxel|block|slot|pixel|day|hour|week|interval|floor)s?\b", re.I
)


def check_below_zero(case: Case) -> None:
    """Move numbers by whole steps: above 0, to learn how results follow, and then below 0."""
    skip_if_incomparable(case)
    if not any(has_integers(leaf) for _, leaf in case.eager.outputs):
        raise skip("nothing-to-check", "no result has integers", unjudged=False)
    reason = "no integers follow whole steps of numbers above 0"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        shown_on = None
        if not may_be_below_zero(case, broken.moves.path):
            shown_on = case.as_beyond("numbers below 0")
        raise fail(
            "truncated-below-zero",
            f"{case.op.name}: {broken}",
            repro=_script(case, broken),
            case=shown_on,
        )


def _answer(case: Case) -> tuple[bool, Truncated | None]:
    """Whether integers follow steps above 0, and a result that does not follow them below."""
    calls = Caller(in_double_if_taken(case))
    is_learned = False
    for path, tensor in replaceable(calls.case):
        for step in steps_of(calls.case):
            moves = Moves(path, step)
            rules, broken = judge(calls, moves, tensor)
            is_learned |= bool(rules)
            if broken is None and rules == {}:
                broken = judge_across(calls, moves, tensor)
            if broken is not None:
                return True, broken
    calls = Caller(case)
    for path, tensor in whole_numbers(case):
        for step in whole_steps(case):
            # Times are often multiples of a step, for which nothing is cut off.
            for start in dict.fromkeys((0, step // 3)):
                rules, broken = judge(calls, Moves(path, step, start), tensor)
                is_learned |= bool(rules)
                if broken is not None:
                    return True, broken
    return is_learned, None


def _script(case: Case, broken: Truncated) -> str:
    moves = broken.moves
    place = expression(case, moves.path)
    at = position(case, broken.result)
    start = f"{moves.start} + " if moves.start else ""
    return (
        call_lines(broken.result)
        + "\ndef result(steps):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach() + ({start}{moves.step!r} * steps)\n"
        + f"    return call(args, kwargs)[{at}].long()\n\n\n"
        + f"above = result({broken.above})\n"
        + (
            "expected = above\n"
            if broken.across
            else f"times = result({broken.above + 1}) - above\n"
            f"expected = above + times * {broken.below - broken.above}\n"
        )
        + f"torch.testing.assert_close(result({broken.below}), expected)\n"
    )


def _numbers_cells(op: Op) -> bool:
    """Whether a docstring speaks of cells or the like, and none says that numbers are rounded to 0."""
    said = [*sentences(op, of_op=True)]
    return any(map(_CELLS.search, said)) and not any(map(_TO_ZERO.search, said))


FINDINGS = {
    "truncated-below-zero": Explanation(
        meaning=(
            "For numbers above 0 an integer result follows them in steps: each step more adds the same. "
            "For numbers below 0 it is one too high, as if they were cut off to 0 and not rounded down. Or "
            "it stays the same with each step, but not below 0, or not if 0 is among the numbers."
        ),
        why=(
            "`.long()`, `.int()`, `astype(int)` and a cast in C++ cut off the fraction, which is rounding "
            "up below 0: the cells on both sides of 0 become one, and all others are shifted. So do `/` "
            "and `%` for integers in C++, torch.fmod and rounding_mode='trunc'."
        ),
        fix=(
            "Round down before the cast: torch.floor(x / step).long(); for integers: "
            "torch.div(x, step, rounding_mode='floor') and torch.remainder. If numbers below 0 do not "
            "occur, have the op reject them, or declare that with tensor(low=0) in the sample; if rounding "
            "to 0 is meant, say so in the docstring."
        ),
        before="""
cell = (x / size).long()
""",
        after="""
cell = torch.floor(x / size).long()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.below_zero",
    summary="numbers below 0 fall into cells and buckets as those above 0 do",
    run=check_below_zero,
    gradients=False,
    needs=_numbers_cells,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Casts to integers that cut off instead of rounding down, where a docstring speaks of cells of a "
        "grid, buckets of time, tiles or the like. "
        "A floating-point tensor is moved by whole steps, 1 or a plain number of the sample. If integers "
        "follow the steps above 0, nearly all of them being one too high at two places below 0 is a "
        "finding: results that end at 0 differ by more. So are integers, such as counts, that stay the "
        "same with whole steps above 0 and below, change with parts of a step, and are others if 0 is "
        "among the numbers. Integers that may be negative by the text about their argument are moved too, "
        "and also by days, weeks and 400 years if a docstring speaks of times. It is a note if the sample "
        "has no numbers below 0 and no text about the argument allows them."
    ),
    cannot_see=(
        "Ops that reject numbers below 0, or say that they round to 0; steps that are no plain number, or "
        "differ between columns without a common one."
    ),
    cost="calls",
)
