"""`relations.initial_value`: the largest of numbers below 0 is one of them, not what a loop began with."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import (
    Caller,
    expression,
    skip_if_incomparable,
)
from ..values.memory.limited_copy import answer_if_taken
from .other_numbers import replaceable, results_with
from .scripts import call_lines, position

_MAXIMUM = re.compile(
    r"\b(a?max(imum|ima)?|largest|highest|greatest)\b(?! (number of|length|size))", re.I
)
# What else makes a result of numbers below 0 something that is none of them.
_FLOOR = re.compile(
    r"\bmax\w*\s*\(\s*0|\b(relu|clamp\w*|clip\w*|hinge|threshold\w*|non-?negative|positive|abs\w*"
    r"|magnitudes?|norms?|thresholded|saturat\w*)\b|\b(at least|not below|no less than|cut off) 0\b"
    r"|\bnegative\b[^.;]*\b(counts?|treated|taken|read|set|become)\b[^.;]*(?<![\w.])(0|zero)(?!\w|\.\d)"
    r"|\bzero[- ]pad|\bpadd\w* (with|by) (0|zeros?)\b",
    re.I,
)
_MOVES = (1.0, 3.0)


class _Broken(NamedTuple):
    """A result that is none of the numbers once these are below 0.

    Args:
        path: of the numbers.
        moves: what is added so that all are above 0, and then so that all are below.
        result: its name.
        at: the position of an element in the flattened result.
        value: the element.
    """

    path: str
    moves: tuple[float, float]
    result: str
    at: int
    value: float


def check_initial_value(case: Case) -> None:
    """Move all numbers above 0, where elements of results are some of them, and then below 0."""
    skip_if_incomparable(case)
    reason = "no element of a result is one of the numbers where these are above 0"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        raise fail(
            "initial-value-for-maximum",
            f"{case.op.name}: with {broken.moves[1]:.4g} added to {broken.path}, so that all its numbers "
            f"are below 0, element {broken.at} of {broken.result} is {broken.value:g}, which is none of "
            "them. With all of them above 0, it is one of them",
            repro=_script(case, broken),
        )


def _gives_maxima(op: Op) -> bool:
    """Whether a docstring speaks of the largest, and of nothing that makes numbers below 0 another one."""
    said = [*sentences(op, of_op=True)]
    return any(map(_MAXIMUM.search, said)) and not any(map(_FLOOR.search, said))


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    calls = Caller(case)
    is_taken = False
    for path, numbers in replaceable(case):
        if numbers.numel() < 2:
            continue
        above = [float(-numbers.min()) + move for move in _MOVES]
        below = [float(-numbers.max()) - move for move in _MOVES]
        found = [_members(calls, path, numbers + move) for move in (*above, *below)]
        for name, (first, is_member) in found[0].items():
            known = [each[name] for each in found if name in each]
            if len(known) < len(found) or any(r.values.shape != first.shape for r in known):
                continue
            follows = is_member & known[1].are_members & (known[1].values != first)
            is_taken |= bool(follows.any())
            stays = known[2].values == known[3].values
            wrong = follows & stays & ~known[2].are_members & ~known[3].are_members
            if bool(wrong.any()):
                at = int(wrong.flatten().nonzero()[0])
                value = float(known[2].values.flatten()[at])
                return True, _Broken(path, (above[0], below[0]), name, at, value)
    return is_taken, None


class _Result(NamedTuple):
    """A result, and which of its elements are among the numbers."""

    values: torch.Tensor
    are_members: torch.Tensor


def _members(calls: Caller, path: str, numbers: torch.Tensor) -> dict[str, _Result]:
    """The results in the dtype of the numbers, by name; none where the op raises."""
    return {
        name: _Result(leaf, torch.isin(leaf, numbers))
        for name, leaf in results_with(calls, path, numbers) or ()
        if isinstance(leaf, torch.Tensor) and leaf.dtype == numbers.dtype and is_plain(leaf)
    }


def _script(case: Case, broken: _Broken) -> str:
    place = expression(case, broken.path)
    at = position(case, broken.result)
    return (
        call_lines(broken.result)
        + "\ndef is_member(added):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.detach() + added\n"
        + f"    element = call(args, kwargs)[{at}].flatten()[{broken.at}]\n"
        + f"    return bool((element == {place}).any())\n\n\n"
        + f"above, below = {broken.moves[0]!r}, {broken.moves[1]!r}\n"
        + "assert is_member(below) or not is_member(above), 'none of the numbers'\n"
    )


FINDINGS = {
    "initial-value-for-maximum": Explanation(
        meaning=(
            "A docstring speaks of the largest of numbers. Where all numbers are above 0, elements of the "
            "result are some of them; where all are below 0, some elements are a constant instead."
        ),
        why=(
            "A maximum that begins with 0, or a buffer of zeros that is reduced into, never falls below 0. "
            "Examples with positive numbers do not show it."
        ),
        fix=(
            "Begin with -inf or with the first number: torch.full(size, -torch.inf), or "
            "scatter_reduce_(..., include_self=False). If 0 counts as one of the numbers, say so in the "
            'docstring ("at least 0"), or write checks=["-relations.initial_value"].'
        ),
        before="""
out = values.new_zeros(segments).scatter_reduce_(0, index, values, "amax")
""",
        after="""
out = values.new_zeros(segments).scatter_reduce_(0, index, values, "amax", include_self=False)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.initial_value",
    summary="the largest of numbers below 0 is one of them",
    run=check_initial_value,
    gradients=False,
    needs=_gives_maxima,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A maximum that begins with 0: of segments, windows, running ones. If a docstring speaks of the "
        "largest numbers, all numbers of a floating-point tensor are moved above 0. Elements of results "
        "that are then some of the numbers must be so where all numbers are below 0."
    ),
    cannot_see=(
        "Minima that begin with a large number. Ops whose docstrings name something that ends at 0: relu, "
        "clamp, zero padding, magnitudes, thresholds."
    ),
    cost="calls",
)
