"""`relations.position_digits`: positions beside half-precision numbers keep their digits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.argument_names import names_places_in_sequence
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented import lines_about, promises_digits
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, copied_results, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .scripts import START, position

# Added to positions: beyond 2**8 and 2**11, from which on the two dtypes do not hold each integer.
_ADDED = {torch.bfloat16: (1001, 2003), torch.float16: (5001, 9003)}
_LARGE = re.compile(
    r"\bany\b|\babsolute\b|\b(context|sequence) length\b|\b\d+k\b|\b(long|large)\b|\b\d{4,}\b", re.I
)
_SMALL_GAP, _LARGE_GAP = 0.05, 0.2  # of the largest result


class _Lost(NamedTuple):
    """A result that is another one in float32 where positions are large.

    Args:
        names: of the arguments of positions.
        added: to the positions.
        result: its name.
        gaps: how far the two are apart, as a share of the largest: for the sample and with large ones.
    """

    names: Sequence[str]
    added: int
    result: str
    gaps: tuple[float, float]


def check_position_digits(case: Case) -> None:
    """Compare with float32: for the positions of the sample, and for larger ones."""
    skip_if_incomparable(case)
    names, half = _positions(case), _half_dtype(case)
    if not names or half is None:
        reason = "no argument has the name of positions, or none has half precision"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op does not take larger positions or float32, or differs for those of the sample"
    lost = answer_if_taken(case, lambda plain: _answer(plain, names, half), reason)
    if lost is None:
        return
    may_be_large = promises_digits(case.op) or any(
        _LARGE.search(lines_about(case.op, base_name(name))) for name in lost.names
    )
    shown_on = None if may_be_large else case.as_beyond("positions larger than the sample's")
    raise fail(
        "positions-lose-digits",
        f"{case.op.name}: with {lost.added} added to {', '.join(lost.names)}, {lost.result} differs from "
        f"that for the same numbers in float32 by {lost.gaps[1]:.0%} of the largest; for the sample's by "
        f"{lost.gaps[0]:.1%}",
        repro=_script(case, lost),
        case=shown_on,
    )


def _positions(case: Case) -> list[str]:
    return [
        path
        for path, tensor in case.inputs().tensors()
        if tensor.dtype in (torch.int32, torch.int64) and is_plain(tensor) and tensor.numel()
        if names_places_in_sequence(base_name(path)) and base_name(path) not in case.op.mutated
    ]


def _half_dtype(case: Case) -> torch.dtype | None:
    return next((x.dtype for _, x in case.inputs().tensors() if x.dtype in _ADDED), None)


def _answer(case: Case, names: list[str], half: torch.dtype) -> tuple[bool, _Lost | None]:
    """Whether results can be compared, and the first that is lost for all large positions."""
    calls = Caller(case)
    usual = _gaps(calls, names, 0, half)
    larger = [_gaps(calls, names, added, half) for added in _ADDED[half]]
    is_taken = False
    for name, gap in usual.items():
        if gap > _SMALL_GAP or any(name not in each for each in larger):
            continue
        is_taken = True
        least = min(each[name] for each in larger)
        if least > _LARGE_GAP:
            return True, _Lost(names, _ADDED[half][0], name, (gap, least))
    return is_taken, None


def _gaps(calls: Caller, names: list[str], added: int, half: torch.dtype) -> dict[str, float]:
    """By result: how far it is from that in float32, as a share of the largest; none if the op raises.

    Results that half precision cannot hold are left out.
    """

    def moved(path: str, tensor: Tensor) -> Tensor:
        return tensor + added if path in names else tensor

    narrow = _results(calls, calls.case.inputs().map_distinct(moved))
    wide = _results(calls, _wider(calls.case.inputs().map_distinct(moved)))
    return {
        name: float((result - wide[name]).abs().max() / wide[name].abs().max().clamp(min=1e-6))
        for name, result in narrow.items()
        if name in wide and result.shape == wide[name].shape
        if float(wide[name].abs().max()) < torch.finfo(half).max
    }


def _wider(arguments: Arguments) -> Arguments:
    return arguments.map_distinct(
        lambda _, tensor: tensor.detach().float() if tensor.dtype in _ADDED else tensor
    )


def _results(calls: Caller, arguments: Arguments) -> dict[str, Tensor]:
    return {
        name: leaf.float().nan_to_num(nan=torch.inf)
        for name, leaf in copied_results(calls(arguments)) or ()
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel()
    }


def _speaks_of_positions(op: Op) -> bool:
    return any(names_places_in_sequence(argument.name) for argument in op.arguments)


_SCRIPT = """
def result(args, kwargs):
    torch.manual_seed(seed)
    found = op(*args, **kwargs)
    return [*numbers(found), *tensors((args, kwargs))][{at}].float()


args, kwargs = inputs()
args = list(args)
{moved}half = (torch.bfloat16, torch.float16)
wider = lambda x: x.float() if x.dtype in half else x
found, expected = result(args, kwargs), result(*tree_map_only(torch.Tensor, wider, (args, kwargs)))
gap = (found - expected).abs().max() / expected.abs().max()
assert gap < {largest}, gap
"""


def _script(case: Case, lost: _Lost) -> str:
    places = [expression(case, name) for name in lost.names]
    moved = "".join(f"{place} = {place} + {lost.added}\n" for place in places)
    at = position(case, lost.result)
    return START + _SCRIPT.format(at=at, moved=moved, largest=_LARGE_GAP)


FINDINGS = {
    "positions-lose-digits": Explanation(
        meaning=(
            "With large positions, a result in half precision is far from the one for the same numbers in "
            "float32. With those of the sample it is not."
        ),
        why=(
            "Positions are cast to the dtype of the other arguments. bfloat16 holds no odd integer above "
            "256, and float16 none above 2048: neighbouring positions become one, and angles are wrong by "
            "several radians."
        ),
        fix="Cast positions to float32, compute angles and frequencies there, and cast the result.",
        before="""
angle = positions.to(x.dtype)[:, None] * inv_freq
""",
        after="""
angle = positions.to(torch.float32)[:, None] * inv_freq
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.position_digits",
    summary="positions beside half-precision numbers keep their digits",
    run=check_position_digits,
    gradients=False,
    needs=_speaks_of_positions,
    variants=("dtype",),
    cheap=True,
    integer_tensors=True,
    findings=FINDINGS,
    catches=(
        "Rotary and timestep embeddings that cast positions to bfloat16 or float16. Where an integer "
        "tensor is named like positions or steps, results are compared with those for the same numbers in "
        "float32: first for the positions of the sample, then for larger ones. A note unless a docstring "
        "says that positions may be large, or promises digits."
    ),
    cannot_see="Positions under other names, and ops in which positions are rows of a table.",
    cost="calls",
)
