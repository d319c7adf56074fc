"""`relations.zero_point`: quantized numbers and their zero point doubled, with half of the scale."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
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
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .scripts import call_lines, position

_ZERO_POINT = re.compile(r"(^|_)(zero_?points?|zeros?|zps?)($|_)")
_SCALE = re.compile(r"(^|_)scales?($|_)")
_NARROW = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-(2**15), 2**15 - 1)}
_FACTORS = (2, 4)  # by which small numbers are multiplied, to learn from
_OF_RANGE = 0.47  # of the end of the range: twice that has room


class _Quantized(NamedTuple):
    """The arguments that stand for real numbers together: `(q - zero_point) * scale`.

    Args:
        q: the path of the integers.
        zero_point, scale: the paths of the others, tensors or numbers.
        low, high: the range of the dtype of the integers.
    """

    q: str
    zero_point: str
    scale: str
    low: int
    high: int


class _Broken(NamedTuple):
    """Numbers that mean something else when they are twice as large, with half of the scale."""

    quantized: _Quantized
    numbers: tuple[torch.Tensor, Any]
    wrong: Disagreement


def check_zero_point(case: Case) -> None:
    """Double quantized numbers and their zero point, and halve the scale: the results stay the same."""
    skip_if_incomparable(case)
    if not any(_all_quantized(case)):
        reason = "no integers of 8 or 16 bits come with a zero point and a scale"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "small numbers, twice as large with half of the scale, do not give the same"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        q, zero_point, scale, low, high = broken.quantized
        raise fail(
            "zero-point-wraps",
            f"{case.op.name}: {q} and {zero_point}, both twice as large, with half of {scale} do not give "
            f"the same, though small ones do: {broken.wrong}",
            f"They stay within {low} to {high}, but their difference does not.",
            repro=_script(case, broken),
            picture=broken.wrong.picture,
        )


def _all_quantized(case: Case) -> Iterator[_Quantized]:
    """The sets of arguments that belong together by their names."""
    given = {argument.name: value for argument, value in case.op.bind(case.sample)}
    tensors = {
        path: tensor
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.numel() and base_name(path) not in case.op.mutated
    }
    names = [argument.name for argument in case.op.arguments]
    for zero_point in filter(_ZERO_POINT.search, names):
        if not _holds_integers(tensors.get(zero_point, given.get(zero_point))):
            continue
        stem = _stem(zero_point, _ZERO_POINT)
        for scale in names:
            if not (_SCALE.search(scale) and _stem(scale, _SCALE) == stem):
                continue
            if not _holds_fractions(tensors.get(scale, given.get(scale))):
                continue
            for path, tensor in tensors.items():
                if tensor.dtype in _NARROW and path != zero_point and path.startswith(stem):
                    yield _Quantized(path, zero_point, scale, *_NARROW[tensor.dtype])


def _stem(name: str, pattern: re.Pattern[str]) -> str:
    """What a name says beside a word: `weight` in `weight_scale`; empty if nothing."""
    return pattern.sub("_", name, count=1).strip("_")


def _holds_integers(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype in _NARROW or value.dtype in (torch.int32, torch.int64)
    return type(value) is int


def _holds_fractions(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, torch.Tensor) else type(value) is float


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether small numbers follow the relation, and larger ones that do not."""
    calls = Caller(case)
    is_learned = False
    for quantized in _all_quantized(case):
        if not _is_learned(calls, quantized):
            continue
        is_learned = True
        for sign in (1, -1):
            numbers = _large(case, quantized, sign)
            found = [_results(calls, quantized, numbers, factor, factor) for factor in (1, 2)]
            if found[0] is None or found[1] is None:
                continue
            wrong = disagreement(case, found[1], found[0])
            if wrong is not None:
                return True, _Broken(quantized, numbers, wrong)
    return is_learned, None


def _is_learned(calls: Caller, quantized: _Quantized) -> bool:
    """Whether small numbers follow the relation, and each of the three arguments counts."""
    case = calls.case
    numbers = _small(case, quantized)
    first = _results(calls, quantized, numbers, 1, 1)
    if first is None:
        return False
    for factor in _FACTORS:
        found = _results(calls, quantized, numbers, factor, factor)
        if found is None or disagreement(case, found, first) is not None:
            return False
    others = (
        _results(calls, quantized, numbers, 1, 2),
        _results(calls, quantized, (numbers[0], numbers[1] + 1), 1, 1),
        _results(calls, quantized, (numbers[0] + 1, numbers[1]), 1, 1),
    )
    return all(found is not None and disagreement(case, found, first) for found in others)


def _small(case: Case, quantized: _Quantized) -> tuple[torch.Tensor, Any]:
    """Numbers near 0 and a zero point below them."""
    return _numbers(case, quantized, (8, 15), 2)


def _large(case: Case, quantized: _Quantized, sign: int) -> tuple[torch.Tensor, Any]:
    """Numbers near one end of the range, and a zero point near the other; halved, to leave room."""
    if quantized.low == 0:
        low, high = (int(part * _OF_RANGE * quantized.high) for part in (0.5, 1.0))
        return _numbers(case, quantized, (0, low) if sign < 0 else (low, high), high - low)
    high = int(_OF_RANGE * quantized.high)
    ends = sorted((sign * high // 2, sign * high))
    return _numbers(case, quantized, (ends[0], ends[1]), -sign * high)


def _numbers(
    case: Case, quantized: _Quantized, ends: tuple[int, int], zero_point: int
) -> tuple[torch.Tensor, Any]:
    """Integers between two ends, in the sizes of the case's, and a zero point."""
    given = {argument.name: value for argument, value in case.op.bind(case.sample)}
    tensors = dict(case.inputs().tensors())
    q = tensors[quantized.q]
    span = ends[1] - ends[0] + 1
    values = (torch.arange(q.numel()) * 5 % span + ends[0]).reshape(q.shape)
    point = tensors.get(quantized.zero_point, given.get(quantized.zero_point))
    if isinstance(point, torch.Tensor):
        return values, torch.full(point.shape, zero_point)
    return values, zero_point


def _results(
    calls: Caller,
    quantized: _Quantized,
    numbers: tuple[torch.Tensor, Any],
    factor: int,
    divisor: int,
) -> Leaves | None:
    """The results with numbers times a factor, and the scale divided; None if the op raises."""
    arguments = calls.case.inputs()
    tensors = dict(arguments.tensors())
    changes: dict[str, Callable[[Any], Any]] = {
        quantized.q: lambda _: numbers[0] * factor,
        quantized.zero_point: lambda _: numbers[1] * factor,
        quantized.scale: lambda scale: scale / divisor,
    }

    def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path not in changes:
            return tensor
        return torch.empty_like(tensor).copy_(changes[path](tensor.detach()))

    arguments = arguments.map_distinct(changed)
    given = {argument.name: value for argument, value in calls.case.op.bind(calls.case.sample)}
    for path in {quantized.zero_point, quantized.scale} - tensors.keys():
        arguments = with_argument(arguments, path, changes[path](given[path]))
    return copied_results(calls(arguments))


def _script(case: Case, broken: _Broken) -> str:
    quantized, (values, point), wrong = broken
    q, zero_point, scale = (expression(case, path) for path in quantized[:3])
    fill = (
        f"{point} * factor"
        if isinstance(point, int)
        else f"torch.full_like({zero_point}, {point.flatten()[0]} * factor)"
    )
    return (
        call_lines(wrong.name)
        + f"\nvalues = torch.tensor({values.tolist()})\n\n\n"
        + "def real(factor):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {q} = torch.empty_like({q}).copy_(values * factor)\n"
        + f"    {zero_point} = {fill}\n"
        + f"    {scale} = {scale} / factor\n"
        + f"    return call(args, kwargs)[{position(case, wrong.name)}]\n\n\n"
        + "torch.testing.assert_close(real(2), real(1), rtol=1e-3, atol=1e-5)\n"
    )


def _has_zero_point(op: Op) -> bool:
    names = [argument.name for argument in op.arguments]
    return any(map(_ZERO_POINT.search, names)) and any(map(_SCALE.search, names))


FINDINGS = {
    "zero-point-wraps": Explanation(
        meaning=(
            "Quantized integers and their zero point, twice as large, and half of the scale stand for the "
            "same real numbers. For small integers the op gives the same, for large ones it does not."
        ),
        why=(
            "The difference of two numbers of 8 bits needs 9 bits. numpy and torch keep it in 8, and so "
            "does int8_t in C++: 100 - (-100) becomes -56."
        ),
        fix="Widen the integers before the zero point is subtracted, not after.",
        before="""
real = (weight - zero_point).astype(np.float32) * scale
""",
        after="""
real = (weight.astype(np.int32) - zero_point).astype(np.float32) * scale
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=(
            *("stale-result", "uninitialized-output", "outputs-not-repeatable"),
            "integer-overflow",
        ),
    ),
}

CHECK = Check(
    name="relations.zero_point",
    summary="quantized numbers mean the same, twice as large with half of the scale",
    run=check_zero_point,
    gradients=False,
    needs=_has_zero_point,
    integer_tensors=True,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A zero point that is subtracted in 8 or 16 bits, and other arithmetic of quantized numbers in too "
        "few bits. Integers of 8 or 16 bits, with a zero point and a scale that belong to them by their "
        "names, are doubled together with the zero point, and the scale is halved: the real numbers stay "
        "the same, and so must the results. Small integers show first whether the op follows that."
    ),
    cannot_see="Integers that are packed, and arguments with other names than `zero_point` and `scale`.",
    cost="calls",
)
