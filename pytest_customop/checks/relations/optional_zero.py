"""`relations.optional_zero`: 0.0 for an optional number is not taken for None."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.compared_constants import compared_constants
from ...cases.crash_risk import may_crash
from ...cases.documented import says_of_zero
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    first_difference,
    skip_if_no_results,
    skip_if_random,
    with_argument,
)
from .compare import disagreement
from .scripts import call_lines, compare_lines

_OPTIONAL = ("Optional[float]", "Optional[number]", "Optional[Scalar]")
# So near to 0 that an op computes the same from it as from 0, unless it branches.
_NEAR = 1e-30


def check_optional_zero(case: Case) -> None:
    """Compare the results for 0.0 with those for None, and for a number next to 0."""
    skip_if_no_results(case)
    skip_if_random(case)
    if may_crash(case):
        reason = "a kernel in C++ does not mistake 0 for no value"
        raise skip("nothing-to-check", reason, unjudged=False)
    calls = Caller(case)
    tried = False
    for name in _optional_numbers(case.op):
        if _means_zero(case.op, name):
            continue
        none, zero = _results(calls, name, None), _results(calls, name, 0.0)
        if none is None or zero is None:
            continue
        if first_difference(zero, none) is not None:
            tried = True
            continue
        near, nearer = _results(calls, name, _NEAR), _results(calls, name, _NEAR / 16)
        if near is None or nearer is None:
            continue
        tried = True
        if disagreement(case, near, nearer) is not None:
            continue
        wrong = disagreement(case, zero, near)
        if wrong is not None and _is_continuous(calls, name, near):
            raise fail(
                "zero-taken-for-none",
                f"{case.op.name}: with {name}=0.0 it gives the same as with {name}=None, but with "
                f"{name}={_NEAR} something else: {wrong}",
                repro=_script(case, name, wrong.name),
                picture=wrong.picture,
            )
    if not tried:
        reason = "the op takes 0.0 and None for no optional number, or says what 0 means"
        raise skip("nothing-to-check", reason, unjudged=False)


def _optional_numbers(op: Op) -> list[str]:
    """The names of the optional floating-point arguments that are None by default."""
    return [
        argument.name
        for argument in op.arguments
        if str(argument.type) in _OPTIONAL and getattr(argument, "default_value", None) is None
    ]


def _has_optional_number(op: Op) -> bool:
    return bool(_optional_numbers(op))


def _means_zero(op: Op, name: str) -> bool:
    """Whether the code compares the argument with 0, or a docstring says what 0 means."""
    return 0 in compared_constants(op, name) or says_of_zero(op, name)


def _results(calls: Caller, name: str, value: float | None) -> Leaves | None:
    return copied_results(calls(with_argument(calls.case.inputs(), name, value)))


def _is_continuous(calls: Caller, name: str, near: Leaves) -> bool:
    """Whether the op gives the same just below 0, or rejects numbers there."""
    below = _results(calls, name, -_NEAR)
    return below is None or disagreement(calls.case, below, near) is None


def _script(case: Case, name: str, result: str) -> str:
    place = expression(case, name)
    setup = "args, kwargs = inputs()\nargs = list(args)\n"
    return (
        call_lines(result)
        + f"\n{setup}{place} = {_NEAR}\nexpected = call(args, kwargs)\n"
        + f"{setup}{place} = 0.0\ngot = call(args, kwargs)\n"
        + compare_lines(case, result)
    )


FINDINGS = {
    "zero-taken-for-none": Explanation(
        meaning=(
            "For an optional number, the op gives the same with 0.0 as with None, and something else with "
            "a number that is practically 0."
        ),
        why=(
            "0.0 is a value like any other, but callers who pass it get the default. In Python, `if "
            "value:` and `value or default` do this."
        ),
        fix=(
            "Test `value is None`. If 0 is meant to be no value, test `value == 0` in the code, or say so "
            'where a docstring describes the argument ("0: no limit").'
        ),
        before="""
fill = left or float(values[0])
""",
        after="""
fill = float(values[0]) if left is None else left
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.optional_zero",
    summary="0.0 for an optional number is not taken for None",
    run=check_optional_zero,
    gradients=False,
    needs=_has_optional_number,
    variants=(),
    findings=FINDINGS,
    catches=(
        "`if limit:` and `limit or default` in Python, where limit is an optional float: the op gives the "
        "same with 0.0 as with None, and something else with numbers next to 0, on both sides of it."
    ),
    cannot_see=(
        "Optional integers, for which 0 often means none (for a seed see `relations.seed`). Kernels in "
        "C++. Anything that the sample does not show: a limit that nothing reaches."
    ),
    cost="calls",
)
