"""`relations.ties`: equal elements keep the order that a docstring promises, in long lists too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_ties import direction_of, first_comes_first, promises_order
from ...cases.tensors import base_name, is_plain
from ...core.wording import listed
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement, in_double_if_taken
from .other_numbers import results_with
from .scripts import call_lines, position
from .tied_positions import InReverse, positions_of_equal

_LONG = 100  # elements: sorts take another way from 16 or 32 on
_MOST = 2**14  # elements of the tensor
_GROUPS = 3  # of equal elements
_TENSORS = 3
_PAIRS = 3
# From the first element to the last, equal ones come to differ by a part of the gap between groups. The
# results may change by as much.
_SPREAD = {torch.float64: 1e-7, torch.float32: 1e-3}
_TOLERANCES = {torch.float64: (1e-4, 1e-5), torch.float32: (2e-2, 1e-2)}


class _Broken(NamedTuple):
    """A tensor with equal elements for which no order that a docstring allows explains the results.

    Args:
        path: of the tensor.
        values: of it.
        steps: by which elements may differ that are one after the other, so that the results are the same:
            above 0 if they rise, below if they fall.
        wrong: the difference from the nearest order.
        case: the case with the tensor's size.
    """

    path: str
    values: torch.Tensor
    steps: list[float]
    wrong: Disagreement
    case: Case


def check_ties(case: Case) -> None:
    """Make elements equal, and then different by so little that only their order changes.

    With equal elements the op must give what it gives with rising ones, or what it gives with falling ones;
    where a docstring says which are first, only one of the two.
    Two equal elements alone must do so, or the op does something else with them than to order them.
    """
    skip_if_incomparable(case)
    if not promises_order(case.op):
        reason = "no docstring says in which order equal elements come"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the order of equal elements changes no result"
    broken = answer_if_taken(case, _answer, reason)
    if isinstance(broken, InReverse):
        raise fail(
            "ties-out-of-order",
            f"{case.op.name}: a docstring says that the first of equal elements comes first, but with "
            f"equal ones in {listed([*broken.changes])} {broken.result} lists the positions "
            f"{broken.positions}",
            repro=broken.script(case),
        )
    if broken is not None:
        path, _, steps, wrong, shown = broken
        moves = " or ".join("rise" if step > 0 else "fall" for step in steps)
        said = (
            "in which order equal elements come" if len(steps) > 1 else "that the first comes first"
        )
        raise fail(
            "ties-out-of-order",
            f"{case.op.name}: a docstring says of equal elements {said}, but with many of them in {path} "
            f"it does not give what it gives if they {moves} a little from one to the next: {wrong}",
            repro=_script(shown, broken),
            case=shown,
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Broken | InReverse | None]:
    """Whether the order of equal elements changes some result, and a tensor for which it is wrong."""
    matters = False
    if first_comes_first(case.op):
        matters, in_reverse = positions_of_equal(case)
        if in_reverse is not None:
            return True, in_reverse
    for sized in _sizes(case):
        calls = Caller(sized)
        for path, tensor in _tensors(sized):
            of_order = _of_order_alone(calls, path, tensor)
            if not of_order or not _orders_pairs(calls, path, tensor):
                continue
            values, step = _tied(tensor)
            equal, rising, falling = (
                _results(calls, path, values, by, of_order) for by in (0, step, -step)
            )
            if equal is None or rising is None or falling is None:
                continue
            if disagreement(sized, rising, falling) is None:
                continue
            matters = True
            direction = direction_of(case.op, base_name(path))
            steps = [direction * step] if direction else [step, -step]
            allowed = [rising if each > 0 else falling for each in steps]
            wrongs = [disagreement(sized, equal, other) for other in allowed]
            wrong = wrongs[0]
            if None in wrongs or wrong is None:
                continue
            again = _results(calls, path, values, 0, of_order)
            if again is not None and disagreement(sized, again, equal) is None:
                return True, _Broken(path, values, steps, wrong, sized)
    return matters, None


def _of_order_alone(calls: Caller, path: str, tensor: torch.Tensor) -> set[str]:
    """The results that stay the same for other numbers in the same order.

    The positions of the nearest points do not: they depend on distances between the numbers.
    """
    numbers = [_distinct(tensor, power).to(tensor.dtype) for power in (1, 2)]
    first, second = (_results(calls, path, each, 0) for each in numbers)
    if first is None or second is None:
        return set()
    after = dict(second)
    return {
        name
        for name, value in first
        if name in after and disagreement(calls.case, [(name, value)], second) is None
    }


def _distinct(tensor: torch.Tensor, power: int) -> torch.Tensor:
    """Different numbers in the order and in the range of the tensor's, evenly spread for a power of 1."""
    ranks = tensor.flatten().argsort(stable=True).argsort(stable=True).double()
    low, high = float(tensor.min()), float(tensor.max())
    spread = low + (high - low) * (ranks / max(tensor.numel() - 1, 1)) ** power
    return spread.reshape(tensor.shape)


def _orders_pairs(calls: Caller, path: str, tensor: torch.Tensor) -> bool:
    """Whether two equal elements among others count as one after the other, and their order matters.

    It is not so for an op that counts equal elements, or puts them together.
    """
    distinct = _distinct(tensor, 1).flatten()
    step = _SPREAD[tensor.dtype] * float(tensor.max() - tensor.min()) / tensor.numel()
    matters = False
    for at in torch.linspace(0, tensor.numel() - 2, _PAIRS).long().tolist():
        found = []
        for by in (0.0, step, -step):
            values = distinct.clone()
            values[at + 1] = values[at] + by
            found.append(_results(calls, path, values.to(tensor.dtype).reshape(tensor.shape), 0))
        equal, rising, falling = found
        if equal is None or rising is None or falling is None:
            return False
        if all(disagreement(calls.case, equal, other) for other in (rising, falling)):
            return False
        matters |= disagreement(calls.case, rising, falling) is not None
    return matters


def _sizes(case: Case) -> Iterator[Case]:
    """The case, and the case with long lists, in double precision if the op takes it."""
    wide = replace(in_double_if_taken(case), tolerances=_TOLERANCES)
    yield wide
    longest = max((max(tensor.shape, default=0) for _, tensor in _tensors(wide)), default=0)
    if 0 < longest < _LONG:
        times = -(-_LONG // longest)
        longer = wide.resized(lambda name, dim, size: times * size)
        if longer is not None and longer.eager.error is None:
            yield longer


def _tensors(case: Case) -> list[tuple[str, torch.Tensor]]:
    """The tensors of floating-point numbers some of which may be equal."""
    found = [
        (path, tensor.detach())
        for path, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.dtype in _SPREAD and tensor.dim()
    ]
    return [
        (path, tensor)
        for path, tensor in found[:_TENSORS]
        if path not in case.op.mutated and _GROUPS < tensor.numel() <= _MOST
    ]


def _tied(tensor: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Few of the tensor's numbers in turn, irregularly, and a step that keeps them apart."""
    ordered = torch.tensor(sorted({*tensor.flatten().tolist()}), dtype=tensor.dtype)
    kept = ordered[torch.linspace(0, len(ordered) - 1, min(_GROUPS, len(ordered))).long()]
    at = (torch.arange(tensor.numel()) * 7 + torch.arange(tensor.numel()) // 5) % len(kept)
    gap = float(kept.diff().min()) if len(kept) > 1 else 1.0
    return kept[at].reshape(tensor.shape), _SPREAD[tensor.dtype] * gap


def _results(
    calls: Caller, path: str, values: torch.Tensor, step: float, names: set[str] | None = None
) -> Leaves | None:
    """The results with the values, each more than the one before by a part of a step; None if it raises.

    Args:
        names: of the results that count; None: all.
    """
    found = results_with(calls, path, _moved(values, step))
    if found is None or names is None:
        return found
    return [(name, value) for name, value in found if name in names]


def _moved(values: torch.Tensor, step: float) -> torch.Tensor:
    rise = torch.linspace(0, step, values.numel(), dtype=torch.float64).reshape(values.shape)
    return (values + rise).to(values.dtype)


def _script(case: Case, broken: _Broken) -> str:
    path, values, steps, wrong, _ = broken
    place, at = expression(case, path), position(case, wrong.name)
    rtol, atol = _TOLERANCES[values.dtype]
    return (
        call_lines(wrong.name)
        + f"\nvalues = torch.tensor({values.tolist()}, dtype={values.dtype})\n\n\n"
        + "def moved(step):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + "    rise = torch.linspace(0, step, values.numel(), dtype=torch.float64)\n"
        + f"    {place} = (values + rise.reshape(values.shape)).to(values.dtype)\n"
        + f"    return call(args, kwargs)[{at}].double()\n\n\n"
        + f"equal, ordered = moved(0), [moved(step) for step in {steps}]\n"
        + f"assert any(\n    torch.allclose(equal, other, rtol={rtol}, atol={atol}, equal_nan=True)\n"
        + "    for other in ordered\n)\n"
    )


FINDINGS = {
    "ties-out-of-order": Explanation(
        meaning=(
            "A docstring says in which order equal elements come. With equal elements in a tensor the op "
            "gives neither what it gives if each is a little larger than the one before, nor what it gives "
            "if each is a little smaller. Or it gives the one of the two that has the last one first, or "
            "lists positions of equal elements in reverse, where the first should come first."
        ),
        why=(
            "Scores are often equal: after rounding, in low precision, for items that a model does not "
            "know. The results then depend on the machine and on how long the list is."
        ),
        fix=(
            'Sort with `torch.sort(stable=True)`, `numpy.argsort(kind="stable")` or `std::stable_sort`, or '
            "make the position a second key. A stable sort that is flipped puts the last of equal elements "
            "first: sort with descending=True, or the negated numbers. If any order will do, say that it "
            "is not specified."
        ),
        before="""
order = numpy.argsort(-scores)
""",
        after="""
order = numpy.argsort(-scores, kind="stable")
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.ties",
    summary="equal elements keep the order that a docstring promises, in long lists too",
    run=check_ties,
    gradients=False,
    needs=promises_order,
    variants=(),
    findings=FINDINGS,
    catches=(
        'A sort that is not stable where a docstring promises an order of equal elements ("ties keep '
        'their order", "of equal scores the first"). A tensor gets few distinct numbers, at the sample\'s '
        "size and in lists of 100 and more, as short lists are often sorted in another way. Then each "
        "element rises, or falls, by so little that only the order of equal ones changes. Where a result "
        "lists positions, and the first of equal elements is promised to come first, all elements become "
        "equal, and all entries along a first dim: the positions must not come in reverse."
    ),
    cannot_see=(
        "Ops whose docstrings promise nothing, integers, an order that comes from another tensor or from "
        "numbers computed first, as distances are, and results that do not depend on the order alone. "
        "Which end comes first is seen in positions, and elsewhere if one sentence says it together with "
        'the direction, as in "by falling score, equal ones in the order of the list".'
    ),
    cost="calls",
)
