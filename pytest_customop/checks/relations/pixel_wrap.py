"""`relations.pixel_wrap`: narrow integers of a picture end at their limits where an argument grows."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, results, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import results_with
from .scripts import call_lines, position

_NARROW = (torch.uint8, torch.int8)
_STEP = 8  # between the numbers that an argument gets
_STEEPEST = 64  # change of a result from one number to the next
_PICTURE = re.compile(
    r"\b(images?|pictures?|pixels?|rgba?|bgr|colou?rs?|luma|chroma|y?cb|y?cr|ycbcr|yuv|hsv|brightness|contrast"
    r"|gamma|gr[ae]y(scale)?|photos?|frames?|pcm)\b",
    re.I,
)
_ON_PURPOSE = re.compile(
    r"\b(wrap\w*|modul\w*|mod|overflow\w*|periodic|phases?|angles?|hues?|cyclic|circular|hash\w*"
    r"|checksums?|parity|xor|bits?|residuals?|deltas?|differences?|palettes?|labels?)\b",
    re.I,
)


class _Wrapped(NamedTuple):
    """A result that starts again at the other end of its dtype.

    Args:
        argument: the tensor that is one number everywhere.
        result: the name of the result.
        element: of the flattened result.
        numbers: two neighbouring numbers of the argument.
        found: the results for these.
    """

    argument: str
    result: str
    element: int
    numbers: tuple[int, int]
    found: tuple[int, int]


def check_pixel_wrap(case: Case) -> None:
    """Call the op with one number everywhere in an argument: with each eighth of the dtype, in order."""
    skip_if_incomparable(case)
    names = _arguments(case)
    leaves = [leaf for _, leaf in results(case.eager) if isinstance(leaf, Tensor)]
    if not names or not any(leaf.dtype in _NARROW and leaf.numel() for leaf in leaves):
        reason = "no argument and no result has integers of 8 bits"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op raises where an argument is one number everywhere"
    wrapped = answer_if_taken(case, lambda plain: _answer(plain, names), reason)
    if wrapped is not None:
        raise fail(
            "pixels-wrap",
            f"{case.op.name}: {wrapped.result} wraps: with {wrapped.numbers[0]} everywhere in "
            f"{wrapped.argument}, its element {wrapped.element} is {wrapped.found[0]}, and with "
            f"{wrapped.numbers[1]} it is {wrapped.found[1]}",
            repro=_script(case, wrapped),
        )


def _arguments(case: Case) -> list[str]:
    return [
        path
        for path, tensor in case.inputs().tensors()
        if tensor.dtype in _NARROW and is_plain(tensor) and tensor.numel()
        if base_name(path) not in case.op.mutated
    ]


def _answer(case: Case, names: list[str]) -> tuple[bool, _Wrapped | None]:
    """Whether the op takes such arguments, and the first result that starts again."""
    calls = Caller(case)
    is_taken = False
    for argument in names:
        dtype = dict(case.inputs().tensors())[argument].dtype
        limits = torch.iinfo(dtype)
        numbers = range(limits.min, limits.max + 1, _STEP)
        found = [_results(calls, argument, number) for number in numbers]
        for name in found[0]:
            series = [each[name] for each in found if name in each]
            if len(series) < len(numbers) or len({each.shape for each in series}) > 1:
                continue
            is_taken = True
            place = _first_wrap(torch.stack(series).reshape(len(series), -1).to(torch.int64))
            if place is not None:
                at, element = place
                values = (
                    int(series[at].flatten()[element]),
                    int(series[at + 1].flatten()[element]),
                )
                ends = (numbers[at], numbers[at + 1])
                return True, _Wrapped(argument, name, element, ends, values)
    return is_taken, None


def _first_wrap(table: Tensor) -> tuple[int, int] | None:
    """Where an element, a column, goes on at the other end of 8 bits: its row and column.

    Modulo 256 it goes one way in small steps from the first number to the last. A threshold, which jumps
    once, does not go on before and behind its jump.
    """
    steps = table.diff(dim=0)
    short = (steps + 128) % 256 - 128  # the way round
    one_way = (short >= 0).all(0) | (short <= 0).all(0)
    moves = short.abs() > 0
    goes_on = torch.zeros_like(moves)
    goes_on[1:-1] = moves[:-2] & moves[1:-1] & moves[2:]
    wraps = (steps != short) & goes_on & one_way & (short.abs() <= _STEEPEST).all(0)
    if not bool(wraps.any()):
        return None
    row, column = (int(number) for number in wraps.nonzero()[0])
    return row, column


def _results(calls: Caller, argument: str, number: int) -> dict[str, Tensor]:
    """The narrow results with one number everywhere in an argument; none if the op raises."""
    usual = dict(calls.case.inputs().tensors())[argument]
    return {
        name: leaf
        for name, leaf in results_with(calls, argument, torch.full_like(usual, number)) or ()
        if isinstance(leaf, Tensor) and leaf.dtype in _NARROW and leaf.numel()
    }


def _is_of_pictures(op: Op) -> bool:
    """Whether a docstring speaks of pictures or sound, and of nothing that wraps on purpose."""
    said = [op.own_name, *sentences(op, of_op=True)]
    return any(map(_PICTURE.search, said)) and not any(map(_ON_PURPOSE.search, said))


def _script(case: Case, wrapped: _Wrapped) -> str:
    place, (below, above) = expression(case, wrapped.argument), wrapped.numbers
    at = position(case, wrapped.result)
    return (
        call_lines(wrapped.result)
        + "\ndef result(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = torch.full_like({place}, number)\n"
        + f"    return int(call(args, kwargs)[{at}].flatten()[{wrapped.element}])\n\n\n"
        + f"found = [result(number) for number in ({below}, {above})]\n"
        + "print(found)\nassert abs(found[1] - found[0]) < 128, 'it starts again at the other end'\n"
    )


FINDINGS = {
    "pixels-wrap": Explanation(
        meaning=(
            "Where an argument grows, 8-bit integers in a result grow (or fall) steadily, and at the end "
            "of their dtype go on at its other end: 254, 255, 0, 1."
        ),
        why=(
            "A cast to a narrow integer keeps the last bits of a number that does not fit, so the "
            "brightest pixels become dark. Colours outside of the range are ordinary: decoders, sharpening "
            "and contrast give them."
        ),
        fix=(
            "Clamp to the range of the dtype before the cast: x.round().clamp(0, 255).to(torch.uint8). If "
            "the numbers are meant to wrap, say so in the docstring."
        ),
        before="""
rgb = np.rint(luma + 1.402 * red).astype(np.uint8)
""",
        after="""
rgb = np.rint(luma + 1.402 * red).clip(0, 255).astype(np.uint8)
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.pixel_wrap",
    summary="narrow integers of a picture end at their limits, and do not wrap",
    run=check_pixel_wrap,
    gradients=False,
    needs=_is_of_pictures,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Casts to uint8 or int8 without a clamp in ops from such integers to such integers. An argument "
        "gets one number everywhere, from the lowest to the highest of its dtype. A result that goes one "
        "way in small steps, but round the end of its dtype, wraps. Only where a docstring speaks of "
        "pictures, colours or the like, and of nothing that wraps on purpose, as hues."
    ),
    cannot_see=(
        "Results that wrap only for arguments that are not the same everywhere, as those of sharpening, "
        "and results of floating-point arguments, which are the matter of `relations.saturation`."
    ),
    cost="many calls",
)
