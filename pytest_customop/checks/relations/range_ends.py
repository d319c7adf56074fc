"""`relations.range_ends`: at an end of a documented range, or of a dtype's, the results do not jump."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import lines_about, sentences
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied_results,
    expression,
    skip_if_no_results,
    skip_if_random,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import in_double_if_taken
from .scripts import call_lines, position

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_CLOSED = re.compile(rf"\[\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\]")
# The last pixel of a row, as in `(W - 1, H - 1)`; not where it is called outside.
_LAST = re.compile(r"(?<![<>=])(?<![<>=] )\b[A-Z]\w*\s*-\s*1\b")
# The two ends may mean the same, or an end may have a meaning of its own.
_SPECIAL = re.compile(
    r"\b(wrap\w*|period\w*|modulo|cyclic|circular|remainder|hue|phases?|turns?|exactly|strictly|exclusive"
    r"|excluded|disable[sd]?|at or (above|below)|on or (outside|beyond))\b",
    re.I,
)
# The smallest or largest number of a dtype has a meaning of its own, or does not belong to the range.
_RESERVED = re.compile(
    r"\b(sentinels?|missing|no[- ]?data|reserved|padding|invalid|ignored|unused|symmetric\w*|masks?|codes?"
    r"|packed|bit[- ]?(fields?|planes?|strings?)|flags?|labels?|ids?|ind(ex|ices))\b"
    r"|-\s*(12[78]|3276[78])\b",
    re.I,
)
_NARROW = (torch.int8, torch.uint8, torch.int16)
_NAMES_NARROW = re.compile(r"\bu?int(8|16)\b|\b(8|16)[- ]?bits?\b|\bPCM\b", re.I)
# Away from a number, as parts of the range: two small steps, and two that are ten times as large.
_STEPS = (1e-4, 2e-4, 1e-3, 2e-3)
_PLACE = 0.37  # a place in the range, as a part of it
_INTEGER_STEPS = (1, 2, 10, 20)
_INTEGER_PLACE = 0.05
_ELEMENTS = 3  # of a tensor that are moved
_SMOOTH = 5.0  # between ten times smaller steps, the results must change this many times less
_JUMP = 20.0  # times the change over the next step, which is as long
_LEAST = 1e-2  # of the largest result, for a jump


class _End(NamedTuple):
    """An element of a tensor, and an end of its range.

    Args:
        path: of the tensor.
        element: of the flattened tensor.
        end: the number.
        steps: from it into the range, as in `_STEPS`.
        place: a number in the range.
        of: whose range it is, for a message.
    """

    path: str
    element: int
    end: float
    steps: tuple[float, ...]
    place: float
    of: str

    def inside(self, step: float) -> float:
        """The number that is a step away from the end."""
        return self.end + step


class _Broken(NamedTuple):
    """An end at which a result jumps.

    Args:
        end: the end.
        name: of the result.
        at, near: the result's element that changes most, at the end and next to it.
        place: of this element in the flattened result.
    """

    end: _End
    name: str
    at: float
    near: float
    place: int


def check_range_ends(case: Case) -> None:
    """Move an element to the ends of a range that a docstring names, and to numbers next to them."""
    skip_if_no_results(case)
    skip_if_random(case)
    if not any(_ends(case)):
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


def _ranges(op: Op, name: str) -> list[tuple[float, float]]:
    """The closed ranges in sentences that name an argument, from 0 or less to more than 0.

    Empty if the ends may be special.
    """
    texts = _texts(op)
    named = re.compile(rf"\b{re.escape(name.removesuffix('s'))}s?\b", re.I)
    about = [lines_about(op, name), *filter(named.search, texts)] if texts else []
    found = [match.groups() for text in about for match in _CLOSED.finditer(text)]
    pairs = [(float(low), float(high)) for low, high in found]
    return [(low, high) for low, high in dict.fromkeys(pairs) if low <= 0 < high]


def _texts(op: Op) -> list[str]:
    """The sentences about an op; none if the ends of ranges may be special."""
    texts = [*sentences(op, of_op=True)]
    return [] if any(map(_SPECIAL.search, texts)) else texts


def _pixels(case: Case, path: str) -> Iterator[tuple[float, float]]:
    """From the first to the last pixel of the other tensors, if a docstring names the last one."""
    if not any(map(_LAST.search, _texts(case.op))):
        return
    for other, tensor in case.inputs().tensors():
        if other != path and tensor.is_floating_point() and tensor.dim() > 1:
            yield from ((0.0, size - 1.0) for size in tensor.shape[-2:] if size > 2)


def _ends(case: Case) -> Iterator[_End]:
    """The elements that are moved: some that are inside of a range, in a tensor most of which is."""
    for path, tensor in case.inputs().tensors():
        if base_name(path) in case.op.mutated or not tensor.numel() or not is_plain(tensor):
            continue
        values = tensor.detach().flatten().to(torch.float64)
        for low, high, steps, part, of in _ranges_of(case, path, tensor):
            inside = ((values > low) & (values < high)).nonzero().flatten()
            if 2 * len(inside) < len(values) or values.abs().max() > 2 * max(high, -low):
                continue
            for element in inside[:_ELEMENTS].tolist():
                for end, sign in ((high, -1), (low, 1)):
                    inward = tuple(sign * step for step in steps)
                    place = end + sign * part
                    yield _End(path, element, end, inward, place, of)


def _ranges_of(
    case: Case, path: str, tensor: torch.Tensor
) -> Iterator[tuple[float, float, tuple[float, ...], float, str]]:
    """The ends of each range of a tensor's numbers, steps, the distance of a place inside, and whose."""
    if tensor.is_floating_point():
        known = [*_ranges(case.op, base_name(path)), *_pixels(case, path)]
        for low, high in dict.fromkeys(known):
            length = high - low
            steps = tuple(step * length for step in _STEPS)
            yield low, high, steps, _PLACE * length, "its documented range"
    elif tensor.dtype in _NARROW and _has_whole_range(case.op):
        limits = torch.iinfo(tensor.dtype)
        part = float(int(_INTEGER_PLACE * (limits.max - limits.min)))
        of = f"the range of {str(tensor.dtype).removeprefix('torch.')}"
        yield float(limits.min), float(limits.max), _INTEGER_STEPS, part, of


def _has_whole_range(op: Op) -> bool:
    """Whether a docstring names narrow integers, and gives neither end of their range a meaning."""
    said = [*sentences(op)]
    is_special = any(_SPECIAL.search(each) or _RESERVED.search(each) for each in said)
    return any(map(_NAMES_NARROW.search, said)) and not is_special


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether results change smoothly with an element, and the first end at which they jump."""
    calls = Caller(in_double_if_taken(case))
    is_taken = False
    for end in _ends(calls.case):
        is_smooth, jump = _jump(calls, end._replace(end=end.place))
        if not is_smooth or jump is not None:
            continue
        is_smooth, jump = _jump(calls, end)
        is_taken |= is_smooth
        if jump is not None:
            return True, jump
    return is_taken, None


def _jump(calls: Caller, end: _End) -> tuple[bool, _Broken | None]:
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
        if fine * _SMOOTH > coarse:
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


def _results(calls: Caller, end: _End, step: float) -> dict[str, torch.Tensor] | None:
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
    end, name = broken.end, broken.name
    place = expression(case, end.path)
    return (
        call_lines(name)
        + "\ndef result(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach().clone(memory_format=torch.contiguous_format)\n"
        + f"    {place}.view(-1)[{end.element}] = number\n"
        + f"    return call(args, kwargs)[{position(case, name)}].flatten()[{broken.place}]\n\n\n"
        + f"at, near = result({end.end}), result({end.inside(end.steps[0])!r})\n"
        + f"torch.testing.assert_close(at, near, rtol={_LEAST}, atol={_LEAST})\n"
    )


def _has_range(op: Op) -> bool:
    """Whether a docstring names a closed range of an argument, the last pixel, or a narrow integer."""
    names = [item.name for item in op.arguments if "Tensor" in str(item.type)]
    is_named = any(_ranges(op, name) for name in names) or any(map(_LAST.search, _texts(op)))
    return is_named or _has_whole_range(op)


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
    needs=_has_range,
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
