"""`relations.whole_numbers`: at whole numbers nothing is lost that is there on both sides of them."""

from __future__ import annotations

import math
import re
from typing import NamedTuple, TypeGuard

import torch

from ...cases.case import Case
from ...cases.code_names import names_in_code
from ...cases.documented import sentences
from ...cases.tensors import is_plain
from ...compat.ops import python_kernels
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Caller,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import in_double_if_taken
from .other_numbers import replaceable, results_with
from .scripts import call_lines, position

# Names in Python code that rounds numbers. What native code does is not known.
_ROUNDING = frozenset(
    {"floor", "ceil", "trunc", "frac", "modf", "fmod", "remainder", "round", "rint", "long", "int"}
    | {"astype", "int64", "int32", "floor_divide", "divmod"}
)
# Numbers that are left out on purpose.
_ON_PURPOSE = re.compile(r"\b(exactly|strict(ly)?|open (interval|range)s?|equal to)\b", re.I)
_TIMES = (1, 2, 3)
_SIDE = 2.0**-20  # of a step, in double precision
_SIDE_SINGLE = 2.0**-9
_AGREE, _LOST = 1e-3, 0.05  # of the largest result


class _Lost(NamedTuple):
    """A result that is smaller at whole numbers than on both sides.

    Args:
        path: of the numbers.
        step: that the numbers are multiples of.
        times: what the multiples are multiplied by.
        result: its name.
        at: the position of an element in the flattened result.
        value, nearby: the element, and what it is on both sides.
    """

    path: str
    step: float
    times: int
    result: str
    at: int
    value: float
    nearby: float


def check_whole_numbers(case: Case) -> None:
    """Call the op with whole numbers, and with numbers a little smaller and a little larger."""
    skip_if_incomparable(case)
    lost = answer_if_taken(case, _answer, "no floating-point results for whole numbers")
    if lost is not None:
        raise fail(
            "lost-at-whole-numbers",
            f"{case.op.name}: with multiples of {lost.step * lost.times:g} in {lost.path}, element "
            f"{lost.at} of {lost.result} is {lost.value:.6g}; with numbers a little smaller or larger "
            f"in magnitude it is {lost.nearby:.6g}",
            repro=_script(case, lost),
        )


def _may_round(op: Op) -> bool:
    """Whether the code may round numbers, and no docstring treats some numbers alone."""
    if any(map(_ON_PURPOSE.search, sentences(op, of_op=True))):
        return False
    is_python = any(True for _ in python_kernels(op.overload))
    return not is_python or not _ROUNDING.isdisjoint(names_in_code(op))


def _answer(case: Case) -> tuple[bool, _Lost | None]:
    calls = Caller(in_double_if_taken(case))
    is_taken = False
    for path, numbers in replaceable(calls.case):
        if bool((numbers == numbers.round()).all()):  # labels, counts
            continue
        for step in _steps(calls.case):
            for times in _TIMES:
                taken, lost = _lost(calls, path, step, times)
                is_taken |= taken
                if lost is not None and _lost(calls, path, step, times)[1] == lost:
                    return True, lost
    return is_taken, None


def _steps(case: Case) -> list[float]:
    """1, and the plain floats above 0, which may be the distance of grid points."""
    numbers = [abs(value) for _, value in case.op.bind(case.sample) if isinstance(value, float)]
    return [*dict.fromkeys([1.0, *(number for number in numbers if 0 < number < math.inf)])]


def _lost(calls: Caller, path: str, step: float, times: int) -> tuple[bool, _Lost | None]:
    """Whether the op takes such numbers, and what is lost at them."""
    given = dict(calls.case.inputs().tensors())[path].detach()
    exact = _whole(given, step, times)
    # Smaller or larger in magnitude: a threshold, too, may be compared with magnitudes.
    side = exact.sign() * step * (_SIDE if given.dtype == torch.float64 else _SIDE_SINGLE)
    found = [
        dict(results_with(calls, path, numbers) or ())
        for numbers in (exact, exact - side, exact + side)
    ]
    for name, value in found[0].items():
        tensors = [leaf.double() for leaf in (each.get(name) for each in found) if _is_float(leaf)]
        if len(tensors) < len(found) or len({each.shape for each in tensors}) > 1:
            continue
        at, below, above = tensors
        if not all(bool(each.isfinite().all()) for each in tensors) or not value.numel():
            continue
        size = float(below.abs().max())
        agree = (below - above).abs() <= _AGREE * size
        wrong = agree & (at.abs() < below.abs() - _LOST * size)
        if bool(wrong.any()):
            place = int(wrong.flatten().nonzero()[0])
            here, nearby = (float(each.flatten()[place]) for each in (at, below))
            return True, _Lost(path, step, times, name, place, here, nearby)
    return bool(found[0]), None


def _whole(given: torch.Tensor, step: float, times: int) -> torch.Tensor:
    """Multiples of a step near the given numbers, without 0, times a number."""
    parts = (given / step).round()
    return torch.where(parts == 0, 1, parts) * times * step


def _is_float(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and is_plain(value)


def _script(case: Case, lost: _Lost) -> str:
    place = expression(case, lost.path)
    at = position(case, lost.result)
    return (
        call_lines(lost.result)
        + "\ndef element(side):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    parts = ({place}.detach() / {lost.step!r}).round()\n"
        + "    parts = torch.where(parts == 0, 1, parts)\n"
        + f"    {place} = parts * {lost.times * lost.step!r} + side * parts.sign()\n"
        + f"    return call(args, kwargs)[{at}].flatten()[{lost.at}].double()\n\n\n"
        + f"side = {lost.step!r} * ({_SIDE} if element(0).dtype == torch.float64 else {_SIDE_SINGLE})\n"
        + "torch.testing.assert_close(element(0), element(side), rtol=0.02, atol=1e-3)\n"
    )


FINDINGS = {
    "lost-at-whole-numbers": Explanation(
        meaning=(
            "For whole numbers, or multiples of a number of the sample, a result is smaller than for "
            "numbers a little smaller and a little larger, for which it is the same."
        ),
        why=(
            "A weight is lost: at a grid point floor and ceil are the same point, and both weights, "
            "ceil - x and x - floor, are 0. Random examples never hit a grid point; pixels, counts and "
            "rewards do."
        ),
        fix=(
            "Take the next point as floor + 1, with the weights 1 - (x - floor) and x - floor. If whole "
            'numbers are meant to differ, write checks=["-relations.whole_numbers"].'
        ),
        before="""
low, high = x.floor(), x.ceil()
return a[low] * (high - x) + a[high] * (x - low)
""",
        after="""
low = x.floor()
share = x - low
return a[low] * (1 - share) + a[low + 1] * share
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.whole_numbers",
    summary="at whole numbers nothing is lost that is there on both sides of them",
    run=check_whole_numbers,
    gradients=False,
    needs=_may_round,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Interpolation and splatting that lose their weights at grid points, where floor and ceil are the "
        "same. A floating-point tensor gets multiples of 1, and of the plain floats of the sample. If a "
        "result is the same a little below and a little above, it must not be smaller there."
    ),
    cannot_see=(
        "Tensors whose numbers are whole in the sample, as labels are; 0; ops whose Python code never "
        "rounds, or whose docstrings speak of numbers that are equal, or strictly between others."
    ),
    cost="many calls",
)
