"""`relations.softmax_shift`: a number that is added to all logits of a softmax changes nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented import is_softmax, sentences
from ...cases.documented_numbers import limits_argument
from ...cases.documented_ranges import closed_ranges
from ...cases.tensors import base_name
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import replaceable, results_with
from .scripts import call_lines, position

_SPOKEN_OF = re.compile(r"\b(soft-?max\w*|attention|log-?sum-?exp|cross[- ]entropy)\b", re.I)
# What makes scores far from 0 others on purpose.
_LIMITED = re.compile(
    r"\b(soft-?cap\w*|cap(s|ped|ping)?|clamp\w*|clip\w*|tanh|saturat\w*|threshold\w*|cut-?offs?)\b",
    re.I,
)
_SMALL = (0.5, -0.5, 1.0, -1.0)
# The exponential of the last number is 0 in the dtype.
_LARGE = {
    torch.float32: (30.0, -30.0, 300.0, -300.0),
    torch.float64: (30.0, -30.0, 2000.0, -2000.0),
}
# Shares of the largest result: what counts as unchanged, and as wrong.
_SAME, _WRONG = 1e-3, 0.05


class _Broken(NamedTuple):
    """A result that a large number changes.

    Args:
        path: of the tensor that the number is added to.
        added: the number.
        result: the name of the result.
        place: of the element that differs most.
        before, after: its values.
    """

    path: str
    added: float
    result: str
    place: tuple[int, ...]
    before: float
    after: float


def check_softmax_shift(case: Case) -> None:
    """Add a large number to all elements of a tensor, where small numbers change no result."""
    skip_if_incomparable(case)
    reason = (
        "there is no floating-point tensor to whose elements a small number can be added in vain"
    )
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        raise fail(
            "softmax-depends-on-shift",
            f"{case.op.name}: with {broken.added:g} added to all elements of {broken.path}, "
            f"{broken.result} is {broken.after:.6g} at {[*broken.place]} instead of {broken.before:.6g}; "
            "with 0.5 or 1 added it does not change, as is right for a softmax",
            repro=_script(case, broken),
        )


def _computes_softmax(op: Op) -> bool:
    """Whether the name of an op, or a docstring, speaks of a softmax, and of nothing that limits scores."""
    said = sentences(op, of_op=True)
    return (is_softmax(op) or any(map(_SPOKEN_OF.search, said))) and not any(
        map(_LIMITED.search, said)
    )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether small numbers can be added to some tensor in vain, and what a large one changes."""
    calls = Caller(case)
    before = _floats(copied_results(calls(case.inputs())))
    is_learned = False
    for path, numbers in replaceable(case):
        name = base_name(path)
        limited = closed_ranges(case.op, name) or limits_argument(case.op, name)
        if numbers.dtype not in _LARGE or numbers.numel() < 2 or limited:
            continue
        kept = before
        for small in _SMALL:
            after = _floats(results_with(calls, path, numbers + small))
            kept = {each: value for each, value in kept.items() if _stays(value, after.get(each))}
        other = _floats(results_with(calls, path, numbers * 1.5))
        kept = {
            each: value
            for each, value in kept.items()
            if each in other and not _stays(value, other[each])
        }
        is_learned |= bool(kept)
        for added in _LARGE[numbers.dtype] if kept else ():
            after = _floats(results_with(calls, path, numbers + added))
            for each, value in kept.items():
                if each in after and after[each].shape == value.shape:
                    place = _farthest(value, after[each])
                    if place is not None:
                        values = float(value[place]), float(after[each][place])
                        return True, _Broken(path, added, each, place, *values)
    return is_learned, None


def _floats(leaves: Leaves | None) -> dict[str, Tensor]:
    """The floating-point results in float64; none if the op raises."""
    return {
        name: value.double()
        for name, value in leaves or ()
        if isinstance(value, Tensor) and value.dtype in _LARGE and value.numel()
    }


def _stays(before: Tensor, after: Tensor | None) -> bool:
    """Whether a finite result is the same in another call."""
    if after is None or after.shape != before.shape or not bool(before.isfinite().all()):
        return False
    return _farthest(before, after, _SAME) is None


def _farthest(before: Tensor, after: Tensor, share: float = _WRONG) -> tuple[int, ...] | None:
    """The element that differs most; None if that is at most a share of the largest."""
    apart = (after - before).abs().nan_to_num(nan=torch.inf)
    if float(apart.max()) <= share * float(before.abs().max()):
        return None
    return tuple(int(at) for at in torch.unravel_index(apart.argmax(), apart.shape))


def _script(case: Case, broken: _Broken) -> str:
    place, at = expression(case, broken.path), position(case, broken.result)
    return (
        call_lines(broken.result)
        + "\n\ndef result(added):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach() + added\n"
        + f"    return call(args, kwargs)[{at}].double()\n\n\n"
        + f"few, many = result(1.0), result({broken.added!r})\n"
        + f"torch.testing.assert_close(many, few, rtol=0, atol={_WRONG} * few.abs().max().item())\n"
    )


FINDINGS = {
    "softmax-depends-on-shift": Explanation(
        meaning=(
            "A small number that is added to all elements of an argument, such as logits or the keys of an "
            "attention, changes no result, as is right for a softmax. A large number does."
        ),
        why=(
            "The largest score is not subtracted before the exponential, or the running maximum begins "
            "with a number that is not below all scores, such as 0 or numeric_limits<float>::min(), "
            "which is the smallest number above 0. Where all scores are far below, every exponential is 0."
        ),
        fix=(
            "Subtract the largest score of each row. Begin a running maximum with -inf: "
            "-std::numeric_limits<float>::infinity(), or numeric_limits<float>::lowest(). If large scores "
            'are cut off on purpose, say so in the docstring ("clamped"), or write '
            'checks=["-relations.softmax_shift"].'
        ),
        before="""
top = scores.amax(-1, keepdim=True).clamp(min=0)
weights = (scores - top).exp()
""",
        after="""
top = scores.amax(-1, keepdim=True)
weights = (scores - top).exp()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.softmax_shift",
    summary="a large number that is added to all logits of a softmax changes no result",
    run=check_softmax_shift,
    gradients=False,
    needs=_computes_softmax,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A softmax, an attention or a cross entropy without the largest score subtracted, or with a "
        "running maximum that does not begin below all scores. Small numbers are added to all elements of "
        "each floating-point tensor in turn. A result that stays the same must not change by more than 5 % "
        "of its largest element with 300 or -300, in float64 with 2000 or -2000."
    ),
    cannot_see=(
        "Ops whose docstrings speak of clamped or capped scores; tensors with a documented range; and "
        "logarithms of sums, which grow with what is added."
    ),
    cost="calls",
)
