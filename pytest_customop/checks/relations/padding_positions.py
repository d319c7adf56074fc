"""`relations.padding_positions`: -1 that a docstring calls padding is not taken for the last position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.argument_names import names_offsets
from ...cases.case import Case
from ...cases.documented import marks_missing
from ...cases.tensors import comparable, is_differentiable, is_plain
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied_results,
    expression,
    skip_if_no_results,
    skip_if_random,
    with_argument,
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import disagreement
from .scripts import call_lines, position


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


def check_padding_positions(case: Case) -> None:
    """Call the op with -1, with the last position in its place, and with another one."""
    skip_if_no_results(case)
    skip_if_random(case)
    if not any(_positions(case)):
        reason = "no docstring calls -1 padding in a tensor of positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op does not take -1, or the last position"
    wrapped = answer_if_taken(case, _answer, reason)
    if wrapped is not None:
        path, last, other, result = wrapped
        raise fail(
            "padding-taken-for-last",
            f"{case.op.name}: a docstring says that -1 in {path} stands for none, but -1 gives exactly "
            f"the same as {last}, the last position; {other} gives something else: {result}",
            repro=_script(case, wrapped),
        )


def _positions(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors without padding for which a docstring calls -1 padding."""
    for path, tensor in case.inputs().tensors():
        whole = not is_differentiable(tensor.dtype) and tensor.dtype.is_signed
        if not whole or not tensor.numel() or not is_plain(tensor) or names_offsets(path):
            continue
        if path not in case.op.mutated and marks_missing(case.op, path) and tensor.min() >= 0:
            yield path, tensor.detach()


def _answer(case: Case) -> tuple[bool, _Wrapped | None]:
    """Whether the op takes -1 and the last position, and where they give the same."""
    calls = Caller(case)
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
    flat = comparable(tensor).flatten().clone()
    flat[flat == last] = 0
    flat[-1] = number
    return flat.reshape(tensor.shape).to(tensor.dtype)


def _results(calls: Caller, path: str, positions: torch.Tensor) -> Leaves | None:
    """The results for other positions; None if the op raises."""
    return copied_results(calls(with_argument(calls.case.inputs(), path, positions)))


def _has_padding(op: Op) -> bool:
    """Whether a docstring says that -1 in some tensor stands for a missing position."""
    names = [item.name for item in op.arguments if "Tensor" in str(item.type)]
    return any(marks_missing(op, name) for name in names)


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
}

CHECK = Check(
    name="relations.padding_positions",
    summary="-1 is not taken for the last position where a docstring calls it padding",
    run=check_padding_positions,
    gradients=False,
    needs=_has_padding,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A -1 that acts as the last position, although a docstring says that it stands for none: the op "
        "gives exactly the same with both, and something else with another position."
    ),
    cannot_see=(
        "The result that -1 should give. Positions for which no docstring calls -1 padding, and samples "
        "that contain -1."
    ),
    cost="calls",
)
