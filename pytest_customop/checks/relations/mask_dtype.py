"""`relations.mask_dtype`: a mask gives the same as uint8 and as bool, where a docstring allows both."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...cases.case import Case
from ...cases.documented_dtypes import may_be_bytes_for_booleans
from ...cases.tensors import is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
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

_Answer = tuple[
    bool, tuple[str, Disagreement] | None
]  # whether the op takes a uint8 mask, and the first that differs


def check_mask_dtype(case: Case) -> None:
    """Call the op with a mask of booleans, and with the same one as uint8."""
    skip_if_incomparable(case)
    if not any(_masks(case)):
        reason = "no docstring allows uint8 for a mask of booleans"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op takes no mask as uint8"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        name, wrong = broken
        raise fail(
            "mask-dtype-matters",
            f"{case.op.name}: with {name} as uint8 it gives other values than with the same booleans, but "
            f"its docstring allows both: {wrong}",
            repro=_script(case, name, wrong.name),
            picture=wrong.picture,
        )


def _masks(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The boolean arguments for which a docstring allows uint8."""
    masks = {
        name: tensor
        for name, tensor in case.inputs().tensors()
        if tensor.dtype == torch.bool and is_plain(tensor) and name not in case.op.mutated
    }
    for name, tensor in masks.items():
        if may_be_bytes_for_booleans(case.op, name, masks.keys() - {name}):
            yield name, tensor


def _answer(case: Case) -> _Answer:
    calls = Caller(case)
    expected = copied_results(calls(case.inputs()))
    is_taken = False
    for name, tensor in _masks(case) if expected is not None else ():
        actual = _results(calls, name, tensor.detach().to(torch.uint8))
        if actual is None or expected is None:
            continue
        is_taken = True
        wrong = disagreement(case, actual, expected, same_dtypes=False)
        again = lambda: copied_results(calls(case.inputs())) or []  # noqa: E731
        if wrong is not None and not is_unsteady(again, expected, actual, wrong.name):
            return True, (name, wrong)
    return is_taken, None


def _results(calls: Caller, name: str, mask: torch.Tensor) -> Leaves | None:
    """The results for another mask; None if the op raises."""
    return copied_results(calls(with_argument(calls.case.inputs(), name, mask)))


def _allows_uint8(op: Op) -> bool:
    """Whether a docstring allows uint8 for some tensor."""
    names = [item.name for item in op.arguments if "Tensor" in str(item.type)]
    return any(may_be_bytes_for_booleans(op, name) for name in names)


def _script(case: Case, name: str, result: str) -> str:
    place = expression(case, name)
    return (
        call_lines(result)
        + "\nexpected = call(*inputs())\nargs, kwargs = inputs()\nargs = list(args)\n"
        + f"{place} = {place}.to(torch.uint8)\ngot = call(args, kwargs)\n"
        + compare_lines(case, result, same_dtype=False)
    )


FINDINGS = {
    "mask-dtype-matters": Explanation(
        meaning=(
            "A docstring says that a mask may be bool or uint8. With the same mask as uint8 the op gives "
            "other values than as bool."
        ),
        why=(
            "`~` on uint8 turns 1 into 254, which is true as well. As an index in numpy, uint8 numbers are "
            "positions, not a mask."
        ),
        fix=(
            "Convert first: `mask = mask.bool()`, or `mask != 0`. If uint8 is not supported, raise for it, "
            "and correct the docstring."
        ),
        before="""
kept = ~mask                             # of uint8: 255 and 254, all of them true
""",
        after="""
kept = ~mask.bool()
""",
        docs=(doc_links.TENSOR_ATTRIBUTES,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.mask_dtype",
    summary="a mask gives the same as uint8 and as bool, where a docstring allows both",
    run=check_mask_dtype,
    gradients=False,
    needs=_allows_uint8,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A mask that counts differently as uint8 than as bool, although a docstring allows both: `~` flips "
        "its bits, or an index takes the place of a mask."
    ),
    cannot_see=(
        "Masks for which no sentence of a docstring names uint8, and samples whose masks are not booleans."
    ),
    cost="calls",
)
