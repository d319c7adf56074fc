"""`relations.range_ends`: at an end of a documented range, or of a dtype's, the results do not jump."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ....cases.case import Case
from ....findings import Explanation, doc_links, fail, skip
from ...check import Check
from ...values.memory.calls import (
    Caller,
    copied_results,
    skip_if_incomparable,
)
from ...values.memory.limited_copy import answer_if_taken
from ..compare import in_double_if_taken
from ..scripts import element_lines
from .ends import End, ends, has_range

_SMOOTH = 5.0  # between ten times smaller steps, the results must change this many times less
_JUMP = 20.0  # times the change over the next step, which is as long
_LEAST = 1e-2  # of the largest result, for a jump


class _Broken(NamedTuple):
    """An end at which a result jumps.

    Args:
        end: the end.
        name: of the result.
        at, near: the result's element that changes most, at the end and next to it.
        place: of this element in the flattened result.
    """

    end: End
    name: str
    at: float
    near: float
    place: int


def check_range_ends(case: Case) -> None:
    """Move an element to the ends of a range that a docstring names, and to numbers next to them."""
    skip_if_incomparable(case)
    if not any(ends(case)):
        reason = (
            "no docstring names a closed range, or narrow integers, that a tensor's numbers are in"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the results do not change smoothly with an element in the range"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        end, name, at, near, _ = broken
        raise fail(
            "jump-at-end-of-range",
            f"{case.op.name}: with an element of {end.path} at {end.end:g}, an end of {end.of}, "
            f"{name} is {at:g}; with {end.inside(end.steps[0]):.6g} it is {near:g}",
            "At another place in the range, the results change smoothly.",
            repro=_script(case, broken),
        )


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether results change smoothly with an element, and the first end at which they jump."""
    calls = Caller(in_double_if_taken(case))
    is_taken = False
    for end in ends(calls.case):
        is_smooth, jump = _jump(calls, end._replace(end=end.place))
        if not is_smooth or jump is not None:
            continue
        is_smooth, jump = _jump(calls, end)
        is_taken |= is_smooth
        if jump is not None:
            return True, jump
    return is_taken, None


def _jump(calls: Caller, end: End) -> tuple[bool, _Broken | None]:
    """Whether results change smoothly next to a number, and the first one that jumps at it."""
    runs = [_results(calls, end, step) for step in (0.0, *end.steps)]
    is_smooth = False
    for name in runs[0] or ():
        tensors = [run[name] for run in runs if run is not None and name in run]
        if len(tensors) < len(runs) or not all(map(_is_finite, tensors)):
            return False, None
        if len({tensor.shape for tensor in tensors}) > 1:
            return False, None
        at, close, closer, wide, wider = tensors
        coarse, fine = _largest(wide - wider), _largest(close - closer)
        if coarse == 0:
            continue  # it does not depend on the element
        if fine == 0 or fine * _SMOOTH > coarse:
            return False, None
        is_smooth = True
        jump = (at - close).abs().flatten()
        if _largest(jump) > max(_JUMP * fine, _LEAST * _largest(at), _LEAST * _largest(close)):
            place = int(jump.argmax())
            at_end, near = (float(each.flatten()[place]) for each in (at, close))
            return True, _Broken(end, name, at_end, near, place)
    return is_smooth, None


def _is_finite(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and bool(tensor.isfinite().all())


def _largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max())


def _results(calls: Caller, end: End, step: float) -> dict[str, torch.Tensor] | None:
    """The results with the element next to the end; None if the op raises."""

    def moved(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path != end.path:
            return tensor
        moved = tensor.detach().clone(memory_format=torch.contiguous_format)
        moved.view(-1)[end.element] = end.inside(step)
        return moved

    leaves = copied_results(calls(calls.case.inputs().map_distinct(moved)))
    if leaves is None:
        return None
    return {
        name: leaf.to(torch.float64)
        for name, leaf in leaves
        if isinstance(leaf, torch.Tensor) and _is_wide(leaf.dtype)
    }


def _is_wide(dtype: torch.dtype) -> bool:
    """Whether the numbers of a result are no codes of few bits."""
    return dtype.is_floating_point or dtype in (torch.int32, torch.int64)


def _script(case: Case, broken: _Broken) -> str:
    end = broken.end
    change = f"t.view(-1)[{end.element}] = number"
    return (
        element_lines(case, end.path, change, broken.name, broken.place)
        + f"at, near = result({end.end}), result({end.inside(end.steps[0])!r})\n"
        + f"torch.testing.assert_close(at, near, rtol={_LEAST}, atol={_LEAST})\n"
    )


FINDINGS = {
    "jump-at-end-of-range": Explanation(
        meaning=(
            "With an element at an end of the range that a docstring names, `[0, 1]` for example, or at an "
            "end of that of int8, uint8 or int16, a result is far from what it is directly next to it. "
            "Elsewhere in the range it changes smoothly."
        ),
        why=(
            "The ends are ordinary input: the corner of a picture, the last entry of a table, a "
            "probability of 1, a sample at full scale. A test with random numbers hardly meets them."
        ),
        fix=(
            "Treat the end as part of the range: `<=` in place of `<`, and clamp the upper index of an "
            "interpolation. Take magnitudes of integers in a wider dtype: int16 has no 32768. "
            "If the end does not belong to the range, write `[0, 1)`."
        ),
        before="""
inside = (left >= 0) & (left + 1 < width)
""",
        after="""
inside = (x >= 0) & (x <= width - 1)
right = (left + 1).clamp(max=width - 1)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.range_ends",
    summary="at an end of a documented range, or of narrow integers, the results do not jump",
    run=check_range_ends,
    gradients=False,
    needs=has_range,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Off by one at the end of a closed range: points on the last row of a picture that count as "
        "outside, a table that is left at its last entry. A docstring names the range, as `[0, 1]`, or "
        "the last pixel, as `(W - 1, H - 1)`, and the sample's numbers are in it. Some of them are moved "
        "to its ends, and next to them. The same for the smallest and largest int8, uint8 and int16 where "
        "a docstring speaks of such integers and gives no end a meaning: a magnitude or a negative that "
        "overflows."
    ),
    cannot_see=(
        "Ranges that no docstring names in brackets, results that are no smooth function of the number, "
        "and ops that speak of periods or of exact numbers."
    ),
    cost="calls",
)
