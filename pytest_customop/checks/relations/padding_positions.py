"""`relations.padding_positions`: positions below 0 that a docstring calls padding are no positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.argument_names import names_offsets
from ...cases.case import Case
from ...cases.documented import marks_missing, marks_negative_missing
from ...cases.tensors import comparable, is_differentiable, is_plain
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
from .compare import disagreement
from .scripts import call_lines, position

_OTHERS = (-2, -3)  # in place of -1


class _Wrapped(NamedTuple):
    """An argument in which -1 gives the same as the last position.

    Args:
        path: of the argument.
        last: the last position.
        other: a position that gives something else.
        result: the name of the result that differs for `other`.
    """

    path: str
    last: int
    other: int
    result: str


class _Unequal(NamedTuple):
    """An argument in which another number below 0 gives something else than -1.

    Args:
        path: of the argument.
        place: of the element.
        number: of it.
        result: the name of the result that differs.
        wrong: how.
    """

    path: str
    place: int
    number: int
    result: str
    wrong: str


def check_padding_positions(case: Case) -> None:
    """Call the op with -1, with the last position in its place, with others, and with -2."""
    skip_if_incomparable(case)
    if not any(_positions(case)) and not any(_negative(case)):
        reason = "no docstring calls numbers below 0 padding in a tensor of positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op does not take -1, or no other position in its place"
    wrapped, unequal = answer_if_taken(case, _answers, reason)
    if unequal is not None:
        path, _, number, _, wrong = unequal
        raise fail(
            "negative-positions-differ",
            f"{case.op.name}: a docstring says that numbers below 0 in {path} stand for none, but with "
            f"{number} in place of -1 it gives something else: {wrong}",
            repro=_script_of_two(case, unequal),
        )
    if wrapped is not None:
        path, last, other, result = wrapped
        raise fail(
            "padding-taken-for-last",
            f"{case.op.name}: a docstring says that -1 in {path} stands for none, but -1 gives exactly "
            f"the same as {last}, the last position; {other} gives something else: {result}",
            repro=_script(case, wrapped),
        )


def _integers(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that may hold positions, or -1."""
    for path, tensor in case.inputs().tensors():
        whole = not is_differentiable(tensor.dtype) and tensor.dtype.is_signed
        if path in case.op.mutated or names_offsets(path) or not whole:
            continue
        if is_plain(tensor) and tensor.numel():
            yield path, tensor.detach()


def _positions(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors without padding for which a docstring calls -1 padding."""
    for path, tensor in _integers(case):
        if marks_missing(case.op, path) and tensor.min() >= 0:
            yield path, tensor


def _negative(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors for which a docstring calls any number below 0 padding."""
    for path, tensor in _integers(case):
        if marks_negative_missing(case.op, path):
            yield path, tensor


def _answers(case: Case) -> tuple[bool, tuple[_Wrapped | None, _Unequal | None]]:
    """Whether the op takes -1 and other numbers in its place, and what they show."""
    calls = Caller(case)
    takes_last, wrapped = _like_last(case, calls)
    takes_negative, unequal = _unlike_others(case, calls)
    return takes_last or takes_negative, (wrapped, unequal)


def _unlike_others(case: Case, calls: Caller) -> tuple[bool, _Unequal | None]:
    """Whether the op takes other numbers below 0 than -1, and which of them gives something else."""
    is_taken = False
    for path, tensor in _negative(case):
        place = int(comparable(tensor).flatten().argmin())  # padding, if there is some
        given = _results(calls, path, _at(tensor, place, -1))
        for number in _OTHERS:
            other = _results(calls, path, _at(tensor, place, number))
            if not given or not other:
                continue
            is_taken = True
            wrong = disagreement(case, _floating(other), _floating(given))
            if wrong is not None:
                return True, _Unequal(path, place, number, wrong.name, str(wrong))
    return is_taken, None


def _floating(leaves: Leaves) -> Leaves:
    """The results that are not integers: these may be the positions as they were given."""
    return [
        (name, leaf)
        for name, leaf in leaves
        if isinstance(leaf, torch.Tensor) and is_differentiable(leaf.dtype)
    ]


def _at(tensor: torch.Tensor, place: int, number: int) -> torch.Tensor:
    """The positions with another number at one place."""
    flat = comparable(tensor).flatten().clone()
    flat[place] = number
    return flat.reshape(tensor.shape).to(tensor.dtype)


def _like_last(case: Case, calls: Caller) -> tuple[bool, _Wrapped | None]:
    """Whether the op takes -1 and the last position, and where they give the same."""
    is_taken = False
    for path, tensor in _positions(case):
        for last in _last_positions(case, path, int(tensor.max())):
            given = _results(calls, path, _with(tensor, last, -1))
            at_last = _results(calls, path, _with(tensor, last, last))
            if given is None or at_last is None:
                continue
            is_taken = True
            if disagreement(case, given, at_last) is not None:
                continue
            for other in (0, 1):
                at_other = _results(calls, path, _with(tensor, last, other))
                wrong = at_other and disagreement(case, at_other, at_last)
                if other != last and wrong:
                    return True, _Wrapped(path, last, other, wrong.name)
    return is_taken, None


def _last_positions(case: Case, path: str, highest: int) -> list[int]:
    """The last positions that the numbers may count up to: in a dim, or in blocks of rows."""
    shapes = [tensor.shape for other, tensor in case.inputs().tensors() if other != path]
    sizes = {size for shape in shapes for size in shape}
    sizes |= {shape[0] * shape[1] for shape in shapes if len(shape) > 1}
    return sorted(size - 1 for size in sizes if size > max(highest, 1))


def _with(tensor: torch.Tensor, last: int, number: int) -> torch.Tensor:
    """The positions with `number` as the last element, and 0 wherever else `last` was."""
    return _at(torch.where(tensor == last, 0, tensor), -1, number)


def _results(calls: Caller, path: str, positions: torch.Tensor) -> Leaves | None:
    """The results for other positions; None if the op raises."""
    return copied_results(calls(with_argument(calls.case.inputs(), path, positions)))


def _has_padding(op: Op) -> bool:
    """Whether a docstring says that -1 in some tensor stands for a missing position."""
    names = [item.name for item in op.arguments if "Tensor" in str(item.type)]
    return any(marks_missing(op, name) or marks_negative_missing(op, name) for name in names)


def _script_of_two(case: Case, unequal: _Unequal) -> str:
    place, at = expression(case, unequal.path), position(case, unequal.result)
    return (
        call_lines(unequal.result)
        + "\n\ndef with_number(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.clone(memory_format=torch.contiguous_format)\n"
        + f"    {place}.view(-1)[{unequal.place}] = number\n"
        + f"    return call(args, kwargs)[{at}]\n\n\n"
        + f"torch.testing.assert_close(with_number({unequal.number}), with_number(-1), equal_nan=True)\n"
    )


def _script(case: Case, wrapped: _Wrapped) -> str:
    place, last = expression(case, wrapped.path), wrapped.last
    setup = "args, kwargs = inputs()\nargs = list(args)\n"
    changed = (
        f"{place}[{place} == {last}] = 0\n{place}.view(-1)[-1] = {{number}}\n"
        f"{{name}} = call(args, kwargs)[{position(case, wrapped.result)}]\n"
    )
    return (
        call_lines(wrapped.result)
        + "\n"
        + setup
        + changed.format(number=-1, name="padding")
        + setup
        + changed.format(number=last, name="last")
        + f'assert not torch.equal(padding, last), "-1 is taken for {last}"\n'
    )


FINDINGS = {
    "padding-taken-for-last": Explanation(
        meaning=(
            "A docstring says that -1 stands for none: padding, nothing found. But with -1 the op reads or "
            "writes at the last position."
        ),
        why=(
            "As an index, -1 counts from the end, in Python and in torch. Padding then overwrites what "
            "another entry has there, or the values there come into the result. No error is raised."
        ),
        fix=(
            "Drop negative positions before you use them as an index: `kept = slots >= 0`, then "
            "`cache[slots[kept]] = values[kept]`. Or clamp them to 0 and mask the result."
        ),
        before="""
cache[slots] = values
""",
        after="""
kept = slots >= 0
cache[slots[kept]] = values[kept]
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "outputs-not-repeatable"),
    ),
    "negative-positions-differ": Explanation(
        meaning=(
            "A docstring says that any number below 0 stands for none: padding, nothing found. But the op "
            "gives another result with -2 than with -1."
        ),
        why=(
            "-1 is treated as padding, or falls into a spare entry at the end; -2 counts from the end, to "
            "another entry. No error is raised."
        ),
        fix="Compare with 0 instead of -1: `ids >= 0`, or `ids.clamp(min=-1)` before the spare entry.",
        before="""
sums = np.zeros(count + 1)               # the spare last one is for -1
np.add.at(sums, ids, x)
""",
        after="""
np.add.at(sums, np.where(ids < 0, count, ids), x)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "outputs-not-repeatable", "padding-taken-for-last"),
    ),
}

CHECK = Check(
    name="relations.padding_positions",
    summary="numbers below 0 that a docstring calls padding are not taken for positions",
    run=check_padding_positions,
    gradients=False,
    needs=_has_padding,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A -1 that acts as the last position, although a docstring says that it stands for none: the op "
        "gives exactly the same with both, and something else with another position. Where a docstring "
        "says so of any number below 0, one that gives something else than -1."
    ),
    cannot_see=(
        "The result that -1 should give. Positions for which no docstring calls numbers below 0 padding; "
        "for -1 alone, samples that contain it."
    ),
    cost="calls",
)
