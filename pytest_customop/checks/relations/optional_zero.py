"""`relations.optional_zero`: 0 for an optional number is not taken for None."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from ...cases.case import Case
from ...cases.compared_constants import compared_constants
from ...cases.crash_risk import may_crash
from ...cases.documented import lines_about, says_of_zero
from ...cases.tensors import is_differentiable, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    CALL,
    Caller,
    Leaves,
    copied_results,
    expression,
    first_difference,
    skip_if_incomparable,
    with_argument,
)
from .compare import Disagreement, disagreement
from .scripts import call_lines, compare_lines

_OPTIONAL = ("Optional[float]", "Optional[number]", "Optional[Scalar]")
_OPTIONAL_INTEGERS = ("Optional[int]", "Optional[SymInt]")
# An integer that names something, so that 0 is one like any other.
_ID = re.compile(
    r"(^|_)(ids?|token|sep(arator)?|code|symbol|character|char|class|label|[bes]os|cls|delimiter)$"
)
_OF_ID = re.compile(r"^\W*\w+\W*(\([^)]*\)\W*)?(optional\W+)?((the|an?) )?(\w+ )?(id|code)\b", re.I)
# So near to 0 that an op computes the same from it as from 0, unless it branches.
_NEAR = 1e-30
_READ = 4096  # integers of a tensor that are looked at


def check_optional_zero(case: Case) -> None:
    """Compare the results for 0 with those for None, and for a number next to 0, or another id."""
    skip_if_incomparable(case)
    if may_crash(case):
        reason = "a kernel in C++ does not mistake 0 for no value"
        raise skip("nothing-to-check", reason, unjudged=False)
    calls = Caller(case)
    tried = False
    for name in _optional_numbers(case.op):
        if _means_zero(case.op, name):
            continue
        for negated in (False, True):  # what 0 limits may be on its other side
            results = _Results(calls, name, negated)
            answer = _answer(results)
            tried |= answer is not None
            if isinstance(answer, Disagreement):
                raise fail(
                    "zero-taken-for-none",
                    f"{case.op.name}: with {name}=0.0 {results.condition}it gives the same as with "
                    f"{name}=None, but with {name}={_NEAR} something else: {answer}",
                    repro=_script(case, name, answer.name, negated),
                    picture=answer.picture,
                )
    for name in _optional_ids(case.op):
        broken = _broken_id(calls, name)
        tried |= broken is not None
        if broken:
            raise fail(
                "zero-taken-for-none",
                f"{case.op.name}: with {name}=0 it gives the same as with {name}=None, but with other ids "
                f"that do not occur in its tensors, {broken[0]} and {broken[1]}, it gives other sizes",
                repro=_script_of_id(case, name, broken),
            )
    if not tried:
        reason = "the op takes 0 and None for no optional number, or says what 0 means"
        raise skip("nothing-to-check", reason, unjudged=False)


@dataclass(frozen=True)
class _Results:
    """Results for other values of an optional number.

    Args:
        calls: of the case's op.
        name: of the number.
        negated: whether all floating-point tensors are negated.
    """

    calls: Caller
    name: str
    negated: bool

    @property
    def condition(self) -> str:
        """What is changed besides, for a message."""
        return "and all tensors negated " if self.negated else ""

    def of(self, value: float | None) -> Leaves | None:
        """The results for a value; None if the op raises."""
        arguments = self.calls.case.inputs()
        if self.negated:
            arguments = arguments.map_distinct(lambda _, tensor: _negative(tensor))
        return copied_results(self.calls(with_argument(arguments, self.name, value)))


def _negative(tensor: torch.Tensor) -> torch.Tensor:
    return -tensor.detach() if tensor.is_floating_point() else tensor


def _answer(results: _Results) -> bool | Disagreement | None:
    """How the op takes 0.0 for None: what differs next to 0; True if it does not, None if it takes none."""
    none, zero = results.of(None), results.of(0.0)
    if none is None or zero is None:
        return None
    if first_difference(zero, none) is not None:
        return True
    near, nearer = results.of(_NEAR), results.of(_NEAR / 16)
    if near is None or nearer is None:
        return None
    case = results.calls.case
    if disagreement(case, near, nearer) is not None:
        return True
    wrong = disagreement(case, zero, near)
    return wrong if wrong is not None and _is_continuous(results, near) else True


def _optional_numbers(op: Op) -> list[str]:
    """The names of the optional floating-point arguments that are None by default."""
    return [
        argument.name
        for argument in op.arguments
        if str(argument.type) in _OPTIONAL and getattr(argument, "default_value", None) is None
    ]


def _optional_ids(op: Op) -> list[str]:
    """The names of the optional integers that name something, and are None by default."""
    return [
        argument.name
        for argument in op.arguments
        if str(argument.type) in _OPTIONAL_INTEGERS and argument.default_value is None
        if _ID.search(argument.name) or _OF_ID.search(lines_about(op, argument.name))
        if not _means_zero(op, argument.name)
    ]


def _broken_id(calls: Caller, name: str) -> tuple[int, ...] | None:
    """Two ids that change the sizes of results where 0 does not; empty if 0 does, None if ids do not.

    Where only values change, None may stand for the id 0.
    """
    case = calls.case
    numbers: set[int] = {value for value in map(_number, case.sample.args) if value is not None}
    for _, tensor in case.inputs().tensors():
        if not is_differentiable(tensor.dtype) and is_plain(tensor):
            numbers |= {*tensor.flatten()[:_READ].tolist()}
    absent = [number for number in range(1, len(numbers) + 4) if number not in numbers][:2]
    results = {
        value: copied_results(calls(with_argument(case.inputs(), name, value)))
        for value in (None, 0, *absent)
    }
    none, zero = results[None], results[0]
    if none is None or zero is None:
        return None
    for number in absent:
        found = results[number]
        if found is None or _sizes(found) == _sizes(none):
            return None
    return () if first_difference(zero, none) is not None else tuple(absent)


def _sizes(leaves: Leaves) -> list[torch.Size]:
    return [leaf.shape for _, leaf in leaves if isinstance(leaf, torch.Tensor)]


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _script_of_id(case: Case, name: str, ids: tuple[int, ...]) -> str:
    place = expression(case, name)
    return (
        CALL
        + "\n\ndef result(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = number\n    return [each.tolist() for each in call(args, kwargs)]\n\n\n"
        + f"assert result({ids[0]}) != result(None)\nassert result(0) != result(None)\n"
    )


def _has_optional_number(op: Op) -> bool:
    return bool(_optional_numbers(op) or _optional_ids(op))


def _means_zero(op: Op, name: str) -> bool:
    """Whether the code compares the argument with 0, or a docstring says what 0 means."""
    return 0 in compared_constants(op, name) or says_of_zero(op, name)


def _is_continuous(results: _Results, near: Leaves) -> bool:
    """Whether the op gives the same just below 0, or rejects numbers there."""
    below = results.of(-_NEAR)
    return below is None or disagreement(results.calls.case, below, near) is None


_NEGATED = """

def negated(*arguments):
    def negative(each):
        return -each.detach() if each.is_floating_point() else each

    return torch.utils._pytree.tree_map_only(torch.Tensor, negative, arguments)

"""


def _script(case: Case, name: str, result: str, negated: bool) -> str:
    place = expression(case, name)
    setup = f"args, kwargs = {'negated(*inputs())' if negated else 'inputs()'}\nargs = list(args)\n"
    return (
        call_lines(result)
        + _NEGATED * negated
        + f"\n{setup}{place} = {_NEAR}\nexpected = call(args, kwargs)\n"
        + f"{setup}{place} = 0.0\ngot = call(args, kwargs)\n"
        + compare_lines(case, result)
    )


FINDINGS = {
    "zero-taken-for-none": Explanation(
        meaning=(
            "For an optional number, the op gives the same with 0.0 as with None, and something else with "
            "a number that is practically 0. Or it does so with 0 for the id of something, and other ids "
            "give results of other sizes."
        ),
        why=(
            "0 is a value like any other, but callers who pass it get the default. In Python, `if "
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
    summary="0 for an optional number or id is not taken for None",
    run=check_optional_zero,
    gradients=False,
    needs=_has_optional_number,
    variants=(),
    findings=FINDINGS,
    catches=(
        "`if limit:` and `limit or default` in Python, where limit is an optional float: the op gives the "
        "same with 0.0 as with None, and something else with numbers next to 0, on both sides of it. All "
        "floating-point tensors are also negated, as 0 may be a limit on either side. For an optional "
        "integer that a name or a docstring calls an id, a token, a code or the like, 0 must change the "
        "sizes of results if other ids do that occur in no tensor."
    ),
    cannot_see=(
        "Other optional integers, for which 0 often means none (for a seed see `relations.seed`). Kernels "
        "in C++. Anything that the sample does not show: a limit that nothing reaches."
    ),
    cost="calls",
)
