"""`values.same_tensor`: one tensor as two arguments gives what a tensor and its copy give."""

from __future__ import annotations

import itertools

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import base_name
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import (
    CALL,
    Caller,
    expression,
    first_difference,
    results,
    skip_if_incomparable,
)
from .memory.perturb import changeable


def check_same_tensor(case: Case) -> None:
    """Compare one tensor as two arguments with that tensor and a copy of it."""
    calls = Caller(case)
    skip_if_incomparable(case)
    pairs = _pairs(case)
    if not pairs:
        reason = "no two floating-point arguments have one shape and dtype"
        raise skip("nothing-to-check", reason, unjudged=False)
    for first, second in pairs:
        expected, actual = (
            calls(_twice(case.inputs(), first, second, copy=copy)) for copy in (True, False)
        )
        if actual.error is not None or expected.error is not None:
            continue
        wrong = first_difference(results(actual), results(expected), case)
        again = calls(_twice(case.inputs(), first, second, copy=True))
        if (
            wrong is None
            or again.error
            or first_difference(results(again), results(expected), case)
        ):
            continue
        first_code, second_code = expression(case, first), expression(case, second)
        raise fail(
            "same-tensor-result",
            f"{case.op.name}: with one tensor as {first} and {second} it gives other values than "
            f"with a copy of it as {second}: {wrong}",
            repro=CALL + _SAME.format(one=first_code, other=second_code),
        )


def _pairs(case: Case) -> list[tuple[str, str]]:
    """Pairs of arguments that may be one tensor: same shape, dtype and device, and not written to."""
    arguments = case.inputs()
    free = [
        (name, tensor)
        for name, tensor in changeable(arguments)
        if base_name(name) not in case.op.mutated
    ]
    return [
        (left_name, right_name)
        for (left_name, left), (right_name, right) in itertools.combinations(free[:6], 2)
        if left.shape == right.shape and left.dtype == right.dtype and left.device == right.device
    ]


def _twice(arguments: Arguments, first: str, second: str, *, copy: bool) -> Arguments:
    """The arguments with the second tensor replaced by the first one, or by a copy of it."""
    tensors = dict(arguments.tensors())
    original = tensors[first]
    again = original.detach().clone().requires_grad_(original.requires_grad) if copy else original
    names = iter(tensors)
    return arguments.map(lambda tensor: again if next(names) == second else tensor)


_SAME = """

args, kwargs = inputs()
args = list(args)
{other} = {one}.detach().clone()
expected = call(args, kwargs)
{other} = {one}
torch.testing.assert_close(call(args, kwargs), expected, rtol=1e-3, atol=1e-5, equal_nan=True)
"""

FINDINGS = {
    "same-tensor-result": Explanation(
        meaning=(
            "With one tensor passed as two arguments, the op gives other values than with a "
            "tensor and its copy."
        ),
        why="f(x, x) is ordinary code: a squared norm, self-attention, a distance to itself.",
        fix=(
            "Do not distinguish arguments by identity or address (a dict keyed by tensor, `a "
            "is b`), and do not use the memory of one as scratch for another."
        ),
        before="""
sizes = {id(a): 1.0, id(b): 2.0}
return a * sizes[id(a)] + b * sizes[id(b)]
""",
        after="""
return a * 1.0 + b * 2.0
""",
        docs=(doc_links.LIBRARY,),
        follows=(
            "stale-result",
            "undeclared-mutation",
        ),
    ),
}

CHECK = Check(
    name="values.same_tensor",
    summary="one tensor as two arguments gives what a tensor and its copy give",
    run=check_same_tensor,
    needs=lambda op: op.may_take_two_tensors,
    findings=FINDINGS,
    catches="Other values with one tensor passed as two arguments than with a tensor and its copy.",
    cannot_see=(
        "Only floating-point and complex arguments that have the same shape and dtype and are not "
        "written to are tried."
    ),
    cost="many calls",
)
