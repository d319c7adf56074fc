"""`relations.no_influence`: a number does not influence results if a docstring says so."""

from __future__ import annotations

from collections.abc import Iterator

from ...cases.case import Case
from ...cases.documented import says_no_influence
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement, is_unsteady
from .scripts import call_lines, compare_lines

# (argument, other number, how the results differ) of the first difference; None without one.
_Answer = tuple[str, int, Disagreement] | None


def check_no_influence(case: Case) -> None:
    """Call the op with other values of the numbers that must not change results."""
    skip_if_incomparable(case)
    reason = "the op takes no other number"
    answer = answer_if_taken(case, _answer, reason)
    if answer is not None:
        name, number, wrong = answer
        raise fail(
            "number-has-influence",
            f"{case.op.name}: with {name}={number} it gives other values than with "
            f"{name}={_value_of(case, name)!r}, but its docstring says that this changes nothing: {wrong}",
            repro=_script(case, name, number, wrong.name),
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Answer]:
    """Whether the op takes another number, and the first one that changes something."""
    calls = Caller(case)
    expected = _results(calls, None, 0)
    tried = False
    for name, number in _numbers(case) if expected is not None else ():
        actual = _results(calls, name, number)
        if actual is None or expected is None:
            continue
        tried = True
        wrong = disagreement(case, actual, expected)
        again = lambda: _results(calls, None, 0) or []  # noqa: E731
        if wrong is not None and not is_unsteady(again, expected, actual, wrong.name):
            return True, (name, number, wrong)
    return tried, None


def _results(calls: Caller, name: str | None, number: int) -> Leaves | None:
    """The results for another number; None if the op raises."""
    arguments = calls.case.inputs()
    changed = arguments if name is None else with_argument(arguments, name, number)
    return copied_results(calls(changed))


def _numbers(case: Case) -> Iterator[tuple[str, int]]:
    """The arguments without influence, with other numbers for each: small ones, which leave a remainder."""
    for name in _without_influence(case.op):
        value = _value_of(case, name)
        if type(value) is int and value > 0:
            yield from ((name, number) for number in (1, 2, 3, 5, 7) if number != value)


def _value_of(case: Case, name: str) -> object:
    """The value of an argument, or its default."""
    argument = next(argument for argument in case.op.arguments if argument.name == name)
    default = argument.default_value if argument.has_default_value() else None
    return dict(case.inputs().named()).get(name, default)


def _without_influence(op: Op) -> list[str]:
    names = [argument.name for argument in op.arguments if str(argument.type) in ("int", "SymInt")]
    return [name for name in names if says_no_influence(op, name)]


def _has_such_a_number(op: Op) -> bool:
    return bool(_without_influence(op))


def _script(case: Case, name: str, number: int, result: str) -> str:
    return (
        call_lines(result)
        + "\nexpected = call(*inputs())\nargs, kwargs = inputs()\nargs = list(args)\n"
        + f"{expression(case, name)} = {number}\ngot = call(args, kwargs)\n"
        + compare_lines(case, result)
    )


FINDINGS = {
    "number-has-influence": Explanation(
        meaning=(
            "A docstring says that an integer, such as the number of entries computed at a time, changes "
            "no result. With another number the op gives other values."
        ),
        why="Callers choose it by the memory that they have, and get other results on another machine.",
        fix=(
            "Look for indices that count from the start of a block instead of from the first entry, and at "
            "the last block, which may be smaller. If the number is meant to matter, correct the docstring."
        ),
        before="""
for start in range(0, len(x), chunk):
    distances = torch.cdist(x[start : start + chunk], x)
    distances.fill_diagonal_(torch.inf)         # in every block, the diagonal of the first
""",
        after="""
for start in range(0, len(x), chunk):
    distances = torch.cdist(x[start : start + chunk], x)
    distances.diagonal(start).fill_(torch.inf)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.no_influence",
    summary="a number does not influence results if a docstring says so",
    run=check_no_influence,
    gradients=False,
    needs=_has_such_a_number,
    variants=("shape",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Results that change with an integer, such as the number of entries at a time, although a "
        "docstring says that they do not: blocks that are combined in a wrong way, indices that count from "
        "the start of a block."
    ),
    cannot_see=(
        "Numbers for which no docstring says so, such as the number of entries that share a scale, and "
        "differences that rounding explains."
    ),
    cost="calls",
)
