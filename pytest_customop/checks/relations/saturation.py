"""`relations.saturation`: narrow integers that grow with an argument end at their limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.argument_names import names_bits
from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import is_plain
from ...declare.inputs import TensorSpec
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    expression,
    results,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_safely
from .other_numbers import results_with
from .precision.randomness import may_be_random
from .scripts import call_lines, position

_CODES = (torch.int8, torch.uint8, torch.int16)
_NUMBERS = (torch.float32, torch.float64)
_STEPS = 8  # numbers within the sample's range, on each side of 0
_FARTHER = (2.0, 4.0, 10.0, 100.0)  # times the largest number of the sample
_LEVELS = 3  # a result with fewer different integers shows no order
# Integers that wrap, or change their order, on purpose.
_ON_PURPOSE = re.compile(
    r"\b(wrap\w*|modul\w*|mod|periodic|phase|angle|hash\w*|parity|bit patterns?|gray)\b", re.I
)
# In one sentence: numbers become narrow integers inside the op, which end at their limits.
_SATURATES = re.compile(
    r"(?!.*\b(gradients?|derivatives?|backward)\b)"
    r"(?=.*\b(u?int8|8[- ]bit|quanti[sz]\w*|codes)\b).*\b(saturat\w*|clip(s|ped)?|clamp(s|ed)?)\b",
    re.I,
)
# In one sentence: numbers that are too large are taken, and give the largest integer.
_TAKES_LARGE = re.compile(
    r"(?=.*\b(beyond|outside|out of|above|larger|exceed\w*|overflow\w*|any)\b)"
    r".*\b(saturat\w*|clip(s|ped)?|clamp(s|ed)?)\b",
    re.I,
)
_BACK = 0.05  # of what a floating-point result changes over the sample's range
# A result of few codes does not exceed so many times its largest value over that range.
_BOUND = 4.0


class _Wrapped(NamedTuple):
    """A result that falls back where an argument grows on.

    Args:
        argument: the tensor that is one number everywhere.
        result: the name of the result.
        at: the place of an element.
        below, above: two numbers.
        codes: the result at that place for each of them.
    """

    argument: str
    result: str
    at: tuple[int, ...]
    below: float
    above: float
    codes: tuple[float, float]


def check_saturation(case: Case) -> None:
    """Call the op with growing numbers everywhere in an argument.

    Where integers only grow, or only fall, over the numbers of the sample's range, they must not turn back
    beyond it.
    """
    skip_if_incomparable(case)
    if not any(_pairs(case)):
        reason = (
            "no result has narrow integers for the elements of a floating-point argument, and no docstring "
            "says that the op saturates such integers inside"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    exceeding = _limit_beyond_result(case)
    if exceeding:
        reason = (
            f"the variant makes {exceeding} a limit that the integers of the result cannot reach"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    if any(map(_ON_PURPOSE.search, (case.op.own_name, *sentences(case.op, of_op=True)))):
        reason = "the name of the op, or a docstring, says that integers may wrap on purpose"
        raise skip("nothing-to-check", reason, unjudged=False)
    is_judged, wrapped = answer_safely(case, _answer)
    if not is_judged:
        reason = "no integers grow with an argument over the numbers of the sample's range"
        raise skip("nothing-to-check", reason, unjudged=False)
    if wrapped is not None:
        below, above = wrapped.codes
        raise fail(
            "integers-wrap",
            f"{case.op.name}: where {wrapped.argument}, one number everywhere, grows from "
            f"{wrapped.below:.6g} to {wrapped.above:.6g}, {wrapped.result}{[*wrapped.at]} goes from "
            f"{below:.6g} to {above:.6g}; for smaller numbers it goes {'up' if above < below else 'down'}",
            repro=_script(case, wrapped),
        )


def _pairs(case: Case) -> Iterator[tuple[str, str]]:
    """(argument, result): floating-point numbers of any size, and as many narrow integers.

    int32 is narrow if a docstring says that integers saturate.

    Where integers inside the op saturate, as a docstring says, also floating-point results, and results of
    any shape, such as a cache that is written to.
    """
    inside, takes_large = (
        any(map(pattern.search, sentences(case.op, of_op=True)))
        for pattern in (_SATURATES, _TAKES_LARGE)
    )
    narrow = (*_CODES, torch.int32) if takes_large else _CODES
    tensors = [(name, leaf) for name, leaf in results(case.eager) if isinstance(leaf, Tensor)]
    codes = [
        (name, leaf)
        for name, leaf in tensors
        if leaf.numel() and (leaf.dtype in narrow or (inside and leaf.dtype in _NUMBERS))
    ]
    if not codes:
        return
    specs = dict(case.sample_tensors())
    for name, tensor in case.inputs().tensors():
        if tensor.dtype not in _NUMBERS or not is_plain(tensor) or "[" in name:
            continue
        if not (takes_large or _takes_any_numbers(specs.get(name))):
            continue
        for result, leaf in codes:
            if inside or leaf.numel() == tensor.numel():
                yield name, result


def _limit_beyond_result(case: Case) -> str:
    """A number that a variant makes larger than the integers of a result, such as 16 bits for uint8."""
    if case.base_case is None:
        return ""
    codes = (leaf.dtype for _, leaf in results(case.eager) if isinstance(leaf, Tensor))
    largest = [torch.iinfo(dtype).max for dtype in codes if dtype in _CODES]
    usual = {argument.name: value for argument, value in case.op.bind(case.base_case.sample)}
    for argument, value in case.op.bind(case.sample):
        name: str = argument.name
        if type(value) in (int, float) and largest and value != usual.get(name):
            most = 2.0 ** min(value, 64) - 1 if names_bits(name) else value
            if most > max(largest):
                return name
    return ""


def _takes_any_numbers(spec: TensorSpec | Tensor | None) -> bool:
    """Whether a sample's numbers have no range: none is given, or they have both signs and exceed 1."""
    values = spec.values if isinstance(spec, TensorSpec) else spec
    if values is not None:
        numbers = torch.as_tensor(values).detach()
        return bool((numbers < 0).any()) and float(numbers.abs().max()) > 1
    return isinstance(spec, TensorSpec) and spec.low is None and spec.high is None


def _answer(case: Case) -> tuple[bool, _Wrapped | None]:
    """Whether integers grow or fall steadily anywhere; the first that turns back."""
    calls = Caller(case)
    if may_be_random(case, lambda: calls(case.inputs())):
        return False, None
    is_judged = False
    for argument, result in dict.fromkeys(_pairs(case)):
        given = dict(case.inputs().tensors())[argument].detach()
        most = float(given.abs().max())
        if not (math.isfinite(most) and most):
            most = 1.0
        numbers = _numbers(most)
        given_codes = [_codes(calls, argument, number, result) for number in numbers]
        codes = [code for code in given_codes if code is not None]
        if len(codes) < len(numbers):
            continue
        table = torch.stack(codes)
        judged, wrapped = _turn(table)
        is_judged |= judged
        if wrapped is not None:
            at, row = wrapped
            below, above = (table[step][at].item() for step in (row - 1, row))
            ends = numbers[row - 1], numbers[row]
            return True, _Wrapped(argument, result, at, *ends, (below, above))
    return is_judged, None


def _numbers(most: float) -> list[float]:
    near = [most * step / _STEPS for step in range(-_STEPS, _STEPS + 1)]
    far = [most * times for times in _FARTHER]
    return [*(-number for number in reversed(far)), *near, *far]


def _codes(calls: Caller, argument: str, number: float, result: str) -> Tensor | None:
    usual = dict(calls.case.inputs().tensors())[argument].detach()
    leaf = dict(results_with(calls, argument, torch.full_like(usual, number)) or ()).get(result)
    if not isinstance(leaf, Tensor):
        return None
    return leaf.to(torch.float64 if leaf.is_floating_point() else torch.int64)


def _turn(table: Tensor) -> tuple[bool, tuple[tuple[int, ...], int] | None]:
    """Whether elements are steady over the sample's range; the place and the row where one turns back.

    Args:
        table: the integers of each element, a row for each of `_numbers`.
    """
    steps = table.diff(dim=0)
    within = steps[len(_FARTHER) : -len(_FARTHER)]
    # Integers have no rounding errors.
    room = _BACK * within.abs().sum(0) * table.is_floating_point()
    rising, falling = (within >= -1e-3 * room).all(0), (within <= 1e-3 * room).all(0)
    several = (within != 0).sum(0) >= _LEVELS - 1
    direction = torch.where(rising & several, 1, torch.where(falling & several, -1, 0))
    if not bool(direction.any()):
        return False, None
    back = (steps * direction) < -room
    if table.is_floating_point():  # what grows without end is no result of few codes
        near = table[len(_FARTHER) : -len(_FARTHER)].abs().amax(0)
        back &= table.abs().amax(0) <= _BOUND * near
    if not bool(back.any()):
        return True, None
    step, *at = (int(number) for number in back.nonzero()[0])
    return True, (tuple(at), step + 1)


def _script(case: Case, wrapped: _Wrapped) -> str:
    place = expression(case, wrapped.argument)
    return (
        call_lines(wrapped.result)
        + "\ndef code(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = torch.full_like({place}.detach(), number)\n"
        + f"    return call(args, kwargs)[{position(case, wrapped.result)}][{wrapped.at}].item()\n\n\n"
        + f"codes = code({wrapped.below!r}), code({wrapped.above!r})\n"
        + f"assert codes[0] {'<=' if wrapped.codes[0] > wrapped.codes[1] else '>='} codes[1], codes\n"
    )


FINDINGS = {
    "integers-wrap": Explanation(
        meaning=(
            "Over the numbers of the sample, integers of 8 or 16 bits in a result only grow (or only fall) "
            "with an argument. For larger numbers they turn back: from 127 to -128, for instance."
        ),
        why=(
            "A cast to a narrow integer keeps the last bits of a number that does not fit. Outliers, which "
            "should get the largest code, then get any code, or one of the other sign."
        ),
        fix=(
            "Clamp to the range of the dtype as the last step before the cast, after a zero point was "
            "added: (q + zero_point).clamp(-128, 127).to(torch.int8). If integers wrap on purpose, say so "
            'in the docstring, or write checks=["-relations.saturation"].'
        ),
        before="""
q = torch.round(x / scale).clamp(-128, 127) + zero_point
return q.to(torch.int8)
""",
        after="""
q = torch.round(x / scale) + zero_point
return q.clamp(-128, 127).to(torch.int8)
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.saturation",
    summary="narrow integers that grow with an argument end at their limits, and do not wrap",
    run=check_saturation,
    gradients=False,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Casts to int8, uint8 or int16 without a clamp, or with a clamp before the zero point is added. A "
        "floating-point argument gets one number everywhere: first numbers over the range of the sample, "
        "then up to a hundred times larger ones. Elements that only grow, or only fall, over the sample's "
        "range must not turn back beyond it. Floating-point results are looked at where a docstring says "
        "that the op saturates or clips codes inside. Only arguments whose numbers have no range are "
        "changed: a description without low and high, listed numbers of both signs that exceed 1, or any "
        "where a docstring says that larger numbers saturate."
    ),
    cannot_see=(
        "Results whose integers do not grow with an argument, and results of other sizes. Ops whose name "
        "or docstring speaks of phases, hashes or of wrapping."
    ),
    cost="many calls",
)
