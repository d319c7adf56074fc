"""`relations.nan_reach`: a NaN reaches only the results that depend on its element."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import Caller, copied_results, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import in_double_if_taken
from .scripts import element_lines

_NAN = re.compile(r"(?<![a-z])nans?(?![a-z])", re.I)
# In a sentence about NaN: it does not occur, or it may spoil more than what depends on it.
_SPOILS = re.compile(
    r"\b(without|no|free of|must|undefined|unspecified|anywhere|whole|everything|entire|onwards?|from then"
    r"|(all|every) (later|following|subsequent|further)|the rest|stays?|propagat\w*)\b"
    r"|\b(row|slice|column|vector|line|group|segment|window|series|sample|input)s?\b[^.;]{0,20}\bnans?\b"
    r"[^.;]*\b(becomes?|is|are|gives?|yields?|returns?)\b",
    re.I,
)
_LEVELS = 64  # the numbers are whole ones up to this, so that sums of them are exact
_CHANGES = (1.0, -1.0, 8.0, -8.0, 1e3, -1e3)
_LARGEST = 1 << 16  # elements
_FEWEST = 3  # results that become NaN
_CLEAR = 0.1  # of the largest influence that the element has on a result: the last one has no less


class _Reached(NamedTuple):
    """A result that becomes NaN with an element, and does not depend on it otherwise.

    Args:
        path: of the tensor.
        element: of the flattened tensor.
        name: of the result.
        place: the first such element of the flattened result.
        others: how many more there are behind it.
    """

    path: str
    element: int
    name: str
    place: int
    others: int


def check_nan_reach(case: Case) -> None:
    """Find out which results depend on an element, then make it NaN."""
    skip_if_incomparable(case)
    reason = "with an element changed to NaN the op raises, or no result is free of it"
    reached = answer_if_taken(case, _answer, reason)
    if reached is not None:
        raise fail(
            "nan-reaches-others",
            f"{case.op.name}: element {reached.element} of {reached.path} has no influence on element "
            f"{reached.place} of {reached.name}, but if it is NaN, so are that one and "
            f"{reached.others} more behind it",
            repro=_script(case, reached),
        )


def _answer(case: Case) -> tuple[bool, _Reached | None]:
    """Whether some results do not depend on an element, and the first of them that a NaN reaches."""
    calls = Caller(in_double_if_taken(case))
    is_tried = False
    for path, tensor in calls.case.inputs().tensors():
        usable = tensor.is_floating_point() and 1 < tensor.numel() <= _LARGEST
        if not usable or not is_plain(tensor) or base_name(path) in case.op.mutated:
            continue
        if not bool(tensor.isfinite().all()):
            continue
        for element in (1, tensor.numel() // 2 + 1):
            if element >= tensor.numel():
                continue
            has_others, reached = _reached(calls, path, element)
            is_tried |= has_others
            if reached is not None:
                return True, reached
    return is_tried, None


def _reached(calls: Caller, path: str, element: int) -> tuple[bool, _Reached | None]:
    """Whether some results do not depend on an element, and the first of them that a NaN reaches."""
    usual = _results(calls, path, element, 0.0)
    changed = [_results(calls, path, element, change) for change in _CHANGES]
    spoiled = _results(calls, path, element, float("nan"))
    has_others = False
    for name, before in usual.items():
        runs = [each[name] for each in changed if name in each]
        after = spoiled.get(name)
        if after is None or after.shape != before.shape or len(runs) < len(_CHANGES):
            continue
        if any(run.shape != before.shape for run in runs) or not before.dim():
            continue
        influence = torch.stack([_difference(run, before) for run in runs]).amax(0)
        is_free = influence == 0
        has_others |= bool(is_free.any())
        reached = (after.isnan() & ~before.isnan() & is_free).reshape(-1, before.shape[-1])
        for row, (hit, felt) in enumerate(zip(reached, influence.reshape_as(reached), strict=True)):
            start = _start_of_tail(hit, felt)
            if start is not None:
                width = before.shape[-1]
                return True, _Reached(path, element, name, row * width + start, width - start - 1)
    return has_others, None


def _start_of_tail(hit: torch.Tensor, influence: torch.Tensor) -> int | None:
    """Where the results begin that are NaN up to the end of a row; None if there is no such end.

    The result before them depends on the element as clearly as others. An influence that dies away, as
    that on a recursive filter, only becomes too small to be seen.
    """
    places = hit.nonzero().flatten()
    if len(places) < _FEWEST:
        return None
    start = int(places[0])
    is_tail = len(places) == len(hit) - start and start > 0
    return start if is_tail and influence[start - 1] > _CLEAR * influence.max() else None


def _difference(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """How far the elements of two results are apart; 0 if both are NaN."""
    same = (left == right) | (left.isnan() & right.isnan())
    return torch.where(same, 0.0, (left - right).abs().nan_to_num(nan=torch.inf))


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Whole numbers in proportion to those of a tensor."""
    values = tensor.detach().clone(memory_format=torch.contiguous_format)
    return (values / values.abs().max().clamp(min=1e-30) * _LEVELS).round()


def _results(calls: Caller, path: str, element: int, change: float) -> dict[str, torch.Tensor]:
    """The floating-point results for whole numbers, one of which is changed; none if the op raises."""

    def moved(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name != path:
            return tensor
        whole = _whole(tensor)
        whole.view(-1)[element] += change
        return whole

    leaves = copied_results(calls(calls.case.inputs().map_distinct(moved)))
    return {
        name: leaf
        for name, leaf in leaves or ()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    }


def _script(case: Case, reached: _Reached) -> str:
    path, element, name, place, _ = reached
    change = f"t = (t / t.abs().max() * {_LEVELS}).round(); t.view(-1)[{element}] += number"
    return (
        element_lines(case, path, change, name, place)
        + "print([result(number) for number in (0, 1, 8, -8)])\n"
        + "assert not result(float('nan')).isnan()\n"
    )


def _speaks_of_nan(op: Op) -> bool:
    """Whether a docstring speaks of NaN, and does not let it spoil what does not depend on it."""
    said = [each for each in sentences(op, of_op=True) if _NAN.search(each)]
    return bool(said) and not any(map(_SPOILS.search, said))


FINDINGS = {
    "nan-reaches-others": Explanation(
        meaning=(
            "Some results do not depend on an element: no finite number there changes them. If it is NaN, "
            "they are NaN too, up to the end of their row. A docstring speaks of NaN."
        ),
        why=(
            "A running sum from which numbers are subtracted again never loses a NaN or an infinity. One "
            "missing value makes the rest of a series useless."
        ),
        fix=(
            "Sum up each window anew, or count the values that are not finite apart from the sum, and "
            "subtract none of them. If a NaN may spoil the rest, say so in the docstring."
        ),
        before="""
total += x[t]
if t >= n:
    total -= x[t - n]              # NaN - NaN is NaN
""",
        after="""
total = x[t - n + 1 : t + 1].sum()
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.nan_reach",
    summary="a NaN reaches only the results that depend on its element",
    run=check_nan_reach,
    gradients=False,
    needs=_speaks_of_nan,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Sums over a moving window that add one number and subtract another: a NaN never leaves them. The "
        "sample's numbers are made whole, so that sums are exact, one is changed by several amounts to "
        "find out what depends on it, and then it is NaN. Only where a docstring speaks of NaN."
    ),
    cannot_see=(
        "NaN in ops whose docstrings do not speak of it, or say that it may spoil more, and results that "
        "are NaN for other reasons, as 0 * NaN."
    ),
    cost="calls",
)
