"""`relations.period`: what gives the same after one period gives the same after any number of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.documented_numbers import at_least_zero, period_of
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement, in_double_if_taken
from .scripts import call_lines, position

_PERIOD = re.compile(
    r"(^|_)(periods?|box(es)?|cells?|lattice|modulus|(box|cell)_?(sizes?|lengths?|edges?|vectors?))$"
)
_ANGLE = re.compile(
    r"(^|_)(angles?|thetas?|phi|psi|phases?|yaws?|headings?|azimuths?|rotations?|radians?|degrees?)($|_)"
)
_TURNS = (2 * math.pi, 360.0)
# In a sentence: a range that numbers must be in, or a remainder that has the sign of its dividend.
_RANGE = re.compile(r"[\[(]\s*-?\s*(0|pi|π|180|2\s*\*?\s*(pi|π))\s*,\s*(?P<end>\w*)")
_RESTRICTED = re.compile(
    r"\bfmod\b|\bsign of\b|\bat most one\b"
    r"|\b(must|should|have to|has to|expected|assumed|already|only|if)\b[^.;]*"
    r"\b(wrapped|inside|within|between|in the|into the)\b",
    re.I,
)
_NEED_NOT = re.compile(r"\b(need|does|do|must|have|has)( no|n')t\b|\bnot? (need|required)\b", re.I)
_NUMBERS = (1, -1, 2, -2, 5, -5)  # of periods
_OTHER = 0.3  # of a period: numbers that are not a whole number of periods apart
_MOST = 4  # pairs of a tensor and a period
# An error is of the size of a period; rounding grows with the number of periods.
_TOLERANCE = (1e-2, 1e-3)


class _Pair(NamedTuple):
    """A tensor, and the period that it may have.

    Args:
        path: of the tensor.
        named: what the period is, for a message.
        code: the period as an expression of `args` and `kwargs`.
        period: a number, or one for each of the last dim.
    """

    path: str
    named: str
    code: str
    period: torch.Tensor


class _Broken(NamedTuple):
    """A number of periods that changes the results, and another one that does not.

    Args:
        pair: the tensor and its period.
        row: that is moved; an element, if the period is a single number.
        right, number: of periods: without an effect, and with one.
        wrong: the difference.
    """

    pair: _Pair
    row: int
    right: int
    number: int
    wrong: Disagreement


def check_period(case: Case) -> None:
    """Add whole periods to one row of a tensor.

    Where results stay the same for one number of periods, also with the row a part of a period away, they
    must do so for all.
    """
    skip_if_incomparable(case)
    if _is_restricted(case.op):
        reason = "a docstring gives numbers a range"
        raise skip("nothing-to-check", reason, unjudged=False)
    if not any(_pairs(case)):
        reason = "no argument is named as a period or an angle, and no docstring gives a period"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no tensor is periodic: its results change with whole periods"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        pair, _, right, number, wrong = broken
        raise fail(
            "periods-have-influence",
            f"{case.op.name}: with {number} * {pair.named} added to a row of {pair.path} it gives "
            f"something else, and with {right} * {pair.named} the same: {wrong}",
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _pairs(case: Case) -> Iterator[_Pair]:
    """The tensors of floating-point numbers that may have a period, with each that they may have."""
    tensors = [(path, tensor) for path, tensor in case.inputs().tensors() if is_plain(tensor)]
    written = case.op.mutated
    for path, tensor in tensors:
        base = base_name(path)
        if not tensor.is_floating_point() or not tensor.numel() or base in written:
            continue
        if _PERIOD.search(base):
            continue
        documented = period_of(case.op, base)
        turns = _TURNS if _ANGLE.search(base) else ()
        for number in turns if documented is None else (documented,):
            yield _Pair(path, f"{number:.6g}", repr(number), torch.tensor(number))
        for name, value in case.inputs().named():
            period = _period(value, tensor) if _PERIOD.search(name) else None
            if period is not None:
                yield _Pair(path, f"`{name}`", expression(case, name), period)


def _period(value: object, tensor: torch.Tensor) -> torch.Tensor | None:
    """A positive number, or one for each number in a row of the tensor."""
    if isinstance(value, float):
        value = torch.tensor(value)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dim() > 1:
        return None
    value = value.detach().to(torch.float64)
    fits = value.dim() == 0 or value.shape == (1,) or value.shape == tensor.shape[-1:]
    return value if fits and bool((value > 0).all() & value.isfinite().all()) else None


def _is_restricted(op: Op) -> bool:
    """Whether a docstring gives numbers a range; one up to an argument that is no period is another's."""
    others = {each.name for each in op.arguments if not _PERIOD.search(each.name)}
    return any(
        (
            _RESTRICTED.search(sentence)
            or any(found["end"] not in others for found in _RANGE.finditer(sentence))
        )
        and not _NEED_NOT.search(sentence)
        for sentence in sentences(op)
    )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether some tensor is periodic, and the first one that is so for some numbers of periods only."""
    case = _precise(case)
    calls = Caller(case)
    is_periodic = False
    for pair in [*_pairs(case)][:_MOST]:
        right, broken = _of_pair(calls, pair)
        is_periodic |= right is not None
        if broken is not None:
            return True, broken
    return is_periodic, None


def _of_pair(calls: Caller, pair: _Pair) -> tuple[int | None, _Broken | None]:
    """A number of periods that changes nothing, with the row at two places, and one that does."""
    case, row = calls.case, _middle(calls.case, pair)
    here, apart = (_results(calls, pair, row, start) for start in (0.0, _OTHER))
    if here is None or apart is None or disagreement(case, here, apart) is None:
        return None, None
    wrongs: dict[int, Disagreement | None] = {}
    for number in _numbers(case, pair):
        after = _results(calls, pair, row, number)
        if after is not None:
            wrongs[number] = disagreement(case, after, here)

    def is_right(number: int) -> bool:
        after = _results(calls, pair, row, number + _OTHER)
        return after is not None and disagreement(case, after, apart) is None

    right = next((each for each, wrong in wrongs.items() if wrong is None and is_right(each)), None)
    if right is not None:
        for number, wrong in wrongs.items():
            if wrong is not None:
                return right, _Broken(pair, row, right, number, wrong)
    return right, None


def _precise(case: Case) -> Case:
    """The case in double precision, if the op takes it, with the tolerances of this check."""
    dtypes = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    return replace(in_double_if_taken(case), tolerances=dict.fromkeys(dtypes, _TOLERANCE))


def _numbers(case: Case, pair: _Pair) -> list[int]:
    positive = at_least_zero(case.op, base_name(pair.path))
    return [number for number in _NUMBERS if number > 0 or not positive]


def _middle(case: Case, pair: _Pair) -> int:
    """The row in the middle of all: it is less than a period away from more rows than others are."""
    rows = _rows(dict(case.inputs().tensors())[pair.path].detach(), pair)
    middle = (rows.amin(0) + rows.amax(0)) / 2
    return int((rows - middle).abs().amax(-1).argmin())


def _rows(tensor: torch.Tensor, pair: _Pair) -> torch.Tensor:
    return tensor.reshape(-1, max(pair.period.numel(), 1))


def _results(calls: Caller, pair: _Pair, row: int, number: float) -> Leaves | None:
    """What the op gives with a number of periods added to one row; None if it raises."""

    def moved(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path != pair.path:
            return tensor
        moved = tensor.detach().clone(memory_format=torch.contiguous_format)
        _rows(moved, pair)[row] += (number * pair.period).to(moved)
        return moved

    return copied_results(calls(calls.case.inputs().map_distinct(moved)))


def _script(case: Case, broken: _Broken) -> str:
    pair, row, right, number, wrong = broken
    place = expression(case, pair.path)
    width = max(pair.period.numel(), 1)
    return (
        call_lines(wrong.name)
        + "\ndef moved(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach().clone(memory_format=torch.contiguous_format)\n"
        + f"    {place}.view(-1, {width})[{row}] += number * {pair.code}\n"
        + f"    return call(args, kwargs)[{position(case, wrong.name)}]\n\n\n"
        + f"expected = moved(0)\nprint('{right:+d}:', (moved({right}) - expected).abs().max())\n"
        + f"torch.testing.assert_close(moved({number}), expected, rtol=1e-2, atol=1e-3, equal_nan=True)\n"
    )


def _may_have_periods(op: Op) -> bool:
    """Whether an argument is named as a period or an angle, or a docstring gives the period of one."""
    names = [item.name for item in op.arguments]
    named = any(_PERIOD.search(name) or _ANGLE.search(name) for name in names)
    return named or any(period_of(op, name) is not None for name in names)


FINDINGS = {
    "periods-have-influence": Explanation(
        meaning=(
            "With one or more whole periods added to a row, for example a box length, the op gives the "
            "same; with another number of them, or in the other direction, it does not."
        ),
        why=(
            "Numbers are wrapped by one period at most, or in one direction only. Particles that have left "
            "the box twice, or angles after two turns, give wrong results without an error."
        ),
        fix=(
            "Take off as many periods as there are: `d - box * round(d / box)`, or a remainder that is "
            "never negative (`torch.remainder`, not `fmod`). If the numbers must be within one period, say "
            "so in the docstring, or have the op raise."
        ),
        before="""
d = torch.where(d > box / 2, d - box, d)
d = torch.where(d < -box / 2, d + box, d)
""",
        after="""
d = d - box * torch.round(d / box)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.period",
    summary="what gives the same after one period gives the same after any number of them",
    run=check_period,
    gradients=False,
    needs=_may_have_periods,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Periodic coordinates and angles that are wrapped by one period at most, or in one direction only. "
        "The period is an argument with a name such as `box`, `cell` or `period`; for arguments named as "
        "angles it is a turn, and else a number that a docstring gives. One row is moved by 1, 2 and 5 "
        "periods in both directions. The results must either change with all of them, as for an op that is "
        "not periodic, or with none."
    ),
    cannot_see=(
        "Ops whose docstring gives the numbers a range, boxes that are not rectangular, and periods that "
        "are constants of the code alone, except a turn."
    ),
    cost="calls",
)
