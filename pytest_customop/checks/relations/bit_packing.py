"""`relations.bit_packing`: codes that numbers are packed into keep every bit of a documented range."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.documented_integers import integer_range
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import results_with
from .scripts import call_lines, position

_INTEGERS = (torch.int32, torch.int64)
_FEWEST = 3  # bits to learn from
_MOST_COLUMNS = 4
# Some bits are left out, or mixed, on purpose.
_ON_PURPOSE = re.compile(
    r"\b(low(er|est)?|mask\w*|truncat\w*|modul\w*|mod|remainder|hash\w*|buckets?|checksum|wrap\w*|clip\w*"
    r"|clamp\w*|saturat\w*|capped|at most|limit(s|ed)?|random)\b",
    re.I,
)


class _Packed(NamedTuple):
    """An argument whose numbers are packed, and a result.

    Args:
        argument: its name.
        bits: how many the documented range has.
        columns: along the last dim, whose numbers have one code.
        result: the name of the result.
    """

    argument: str
    bits: int
    columns: Sequence[int]
    result: str


class _Lost(NamedTuple):
    """A bit that the code of a number does not keep.

    Args:
        packed: the argument and the result.
        column, bit: of the number.
        code: the code of the number with this bit alone.
        code_of_others: the bits in the codes of those before it.
    """

    packed: _Packed
    column: int
    bit: int
    code: int
    code_of_others: int


def check_bit_packing(case: Case) -> None:
    """Call the op with numbers of one bit, from the lowest to the highest of the documented range."""
    skip_if_incomparable(case)
    arguments = _arguments(case)
    if not arguments:
        reason = (
            "no argument of int32 or int64 has a documented range of which the sample shows a part"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no result packs the bits of numbers"
    lost = answer_if_taken(case, lambda plain: _answer(plain, arguments), reason)
    if lost is not None:
        argument, result = lost.packed.argument, lost.packed.result
        others = f", and codes before it have {lost.code_of_others % 2**64:#x}" if lost.code else ""
        raise fail(
            "packed-bits-lost",
            f"{case.op.name}: {result} packs the bits of {argument}, but does not keep bit {lost.bit} of "
            f"column {lost.column}: the code of {2**lost.bit:#x} is {lost.code % 2**64:#x}{others}",
            f"A docstring gives {argument} the range {_range_of(case.op, argument)}.",
            repro=_script(case, lost),
        )


def _range_of(op: Op, argument: str) -> str:
    found = integer_range(op, base_name(argument))
    return "" if found is None else f"{found.low} to {found.high}"


def _arguments(case: Case) -> dict[str, tuple[int, int]]:
    """By name: how many bits the documented range has, and how many the sample's numbers have."""
    found = {}
    for path, tensor in case.inputs().tensors():
        documented = integer_range(case.op, base_name(path))
        usable = tensor.dtype in _INTEGERS and is_plain(tensor) and tensor.dim() and tensor.numel()
        if not usable or documented is None or base_name(path) in case.op.mutated:
            continue
        highest = min(documented.high, torch.iinfo(tensor.dtype).max)
        bits, shown = highest.bit_length(), int(tensor.max()).bit_length()
        # The largest number has all bits, unless the range ends within a power of two.
        bits -= highest != 2**bits - 1
        if documented.low <= 0 and int(tensor.min()) >= 0 and _FEWEST <= shown < bits:
            found[path] = bits, shown
    return found


def _answer(case: Case, arguments: dict[str, tuple[int, int]]) -> tuple[bool, _Lost | None]:
    """Whether any result packs the bits that the sample shows, and the first bit that it does not keep."""
    calls = Caller(case)
    is_packed = False
    for argument, (bits, shown) in arguments.items():
        columns = range(dict(case.inputs().tensors())[argument].shape[-1])[:_MOST_COLUMNS]
        for result in _codes(calls, argument, 0, 0):
            for together in (columns, columns[:1]):
                packed = _Packed(argument, bits, together, result)
                lost = _first_lost(calls, packed)
                if lost is None or lost.bit >= shown:
                    is_packed = True
                if lost is not None and lost.bit >= shown:
                    return True, lost
    return is_packed, None


def _first_lost(calls: Caller, packed: _Packed) -> _Lost | None:
    """The first bit whose code has none, or one of another code, or does not add up with the bit below."""

    def code_of(column: int, number: int) -> int:
        return _codes(calls, packed.argument, column, number).get(packed.result, 0)

    below = {column: code_of(column, 0) for column in packed.columns}
    is_empty, seen = not any(below.values()), 0
    for bit, column in itertools.product(range(packed.bits), packed.columns):
        code = code_of(column, 2**bit)
        both = code_of(column, 2**bit | 2**bit // 2)
        if not is_empty or not code or code & seen or both != code | below[column]:
            return _Lost(packed, column, bit, code, seen)
        seen |= code
        below[column] = code
    return None


def _codes(calls: Caller, argument: str, column: int, number: int) -> dict[str, int]:
    """By integer result: its first element, for a number in one column and 0 elsewhere."""
    value = torch.zeros_like(dict(calls.case.inputs().tensors())[argument])
    value[..., column] = number
    return {
        name: int(leaf.flatten()[0])
        for name, leaf in results_with(calls, argument, value) or ()
        if isinstance(leaf, Tensor) and leaf.dtype in _INTEGERS and leaf.numel()
    }


def _packs(op: Op) -> bool:
    """Whether no docstring says that bits are left out or mixed on purpose."""
    return not any(map(_ON_PURPOSE.search, (op.own_name, *sentences(op, of_op=True))))


def _script(case: Case, lost: _Lost) -> str:
    packed, place = lost.packed, expression(case, lost.packed.argument)
    return (
        call_lines(packed.result)
        + "\ndef code(number, column):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = torch.zeros_like({place})\n    {place}[..., column] = number\n"
        + f"    return int(call(args, kwargs)[{position(case, packed.result)}].flatten()[0])\n\n\n"
        + f"seen = 0\nfor bit in range({lost.bit + 1}):\n    for column in {[*packed.columns]}:\n"
        + "        found, below = code(2**bit, column), code(2**bit // 2, column)\n"
        + "        assert found and not found & seen, (bit, column, hex(found))\n"
        + "        assert code(2**bit | 2**bit // 2, column) == found | below, (bit, column)\n"
        + "        seen |= found\n"
    )


FINDINGS = {
    "packed-bits-lost": Explanation(
        meaning=(
            "Each bit of an argument has bits of its own in a result, for the numbers of the sample. For "
            "larger ones, within the range that a docstring gives, a bit has none, or one of another bit."
        ),
        why=(
            "1 << n is an int of 32 bits in C++, and numpy shifts in the dtype of the array. What does not "
            "fit is lost, or lands on the lowest bits: different numbers get one code."
        ),
        fix="Shift in 64 bits: x.to(torch.int64) << n, array.astype(np.int64) << n, int64_t{1} << n.",
        before="""
code |= (coords[:, axis] >> bit & 1).to(torch.int32) << (3 * bit + axis)
""",
        after="""
code |= (coords[:, axis] >> bit & 1).to(torch.int64) << (3 * bit + axis)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.bit_packing",
    summary="codes that numbers are packed into keep every bit of a documented range",
    run=check_bit_packing,
    gradients=False,
    needs=_packs,
    variants=(),
    integer_tensors=True,
    findings=FINDINGS,
    catches=(
        "Morton codes, k-mers and packed fields whose bits are shifted in 32 bits. Where a docstring gives "
        "the range of an integer argument, the op is called with numbers of one bit. If each bit that the "
        "sample shows has bits of its own in a result, each bit of the range must have them."
    ),
    cannot_see=(
        "Codes that are sums of products or hashes, and ranges that no docstring gives. Ops whose "
        "docstrings speak of masks, lowest bits, remainders, limits or the like."
    ),
    cost="many calls",
)
