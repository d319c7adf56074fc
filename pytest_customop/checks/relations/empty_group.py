"""`relations.empty_group`: a group without members gives what a docstring says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...cases.argument_names import names_lengths, names_offsets
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented_groups import values_of_empty_groups
from ...cases.tensors import is_plain
from ...core.wording import docstring_says
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
from .scripts import call_lines


class _Grown(NamedTuple):
    """A way to get one more group, without members.

    Args:
        argument: of the groups.
        how: what changes, for a message.
        code: what the argument becomes, with `{}` for itself.
        said: the clause of a docstring.
        values: that the results for the new group may be.
    """

    argument: str
    how: str
    code: str
    said: str
    values: tuple[float, ...]


def check_empty_group(case: Case) -> None:
    """Add a group without members, and look at its results."""
    skip_if_incomparable(case)
    if not any(_ways(case)):
        reason = (
            "no argument that a docstring speaks of counts groups, or divides a tensor into some"
        )
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no results have one more entry with one more group"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        way, found = broken
        raise fail(
            "empty-group-mismatch",
            f"{case.op.name}: with {way.how} the results for the new group, which has no members, are "
            f"{found}",
            docstring_says(way.said),
            repro=_script(case, way),
        )


def _ways(case: Case) -> Iterator[_Grown]:
    tensors = dict(case.inputs().tensors())
    for argument, value in case.op.bind(case.sample):
        name = argument.name
        documented = values_of_empty_groups(case.op, name)
        if documented is None or name in case.op.mutated:
            continue
        tensor = tensors.get(name)
        if type(value) is int and value > 0:
            yield _Grown(name, f"{name}={value + 1}", "{} + 1", *documented)
        elif tensor is not None and is_plain(tensor) and tensor.dim() == 1 and tensor.numel() > 1:
            if tensor.dtype not in (torch.int32, torch.int64):
                continue
            if names_offsets(name) and bool((tensor.diff() >= 0).all()):
                how = f"the last of {name} once more"
                yield _Grown(name, how, "torch.cat([{0}, {0}[-1:]])", *documented)
            elif names_lengths(name):
                how = f"one more of {name}, which is 0,"
                code = "torch.cat([{0}, {0}.new_zeros(1)])"
                yield _Grown(name, how, code, *documented)


def _answer(case: Case) -> tuple[bool, tuple[_Grown, str] | None]:
    """Whether results have an entry for one more group, and what is wrong with it."""
    calls = Caller(case)
    usual = copied_results(calls(case.inputs()))
    is_taken = False
    for way in _ways(case):
        more = copied_results(calls(_with_one_more(case.inputs(), way)))
        entries = _new_entries(case, usual or [], more or [])
        if not entries:
            continue
        is_taken = True
        if not any(_is_one_of(entry, way.values) for _, entry in entries):
            texts = [f"{name} {entry.flatten()[0].item():.6g}" for name, entry in entries]
            return True, (way, ", ".join(texts))
    return is_taken, None


def _with_one_more(arguments: Arguments, way: _Grown) -> Arguments:
    value = dict(arguments.named())[way.argument]
    grown = eval(way.code.format("value"), {"torch": torch, "value": value})
    return with_argument(arguments, way.argument, grown)


def _new_entries(case: Case, usual: Leaves, more: Leaves) -> list[tuple[str, Tensor]]:
    """What results have more, by name; nothing if anything else is different."""
    if [name for name, _ in usual] != [name for name, _ in more]:
        return []
    entries, kept = [], []
    for (name, before), (_, after) in zip(usual, more, strict=True):
        if not isinstance(before, Tensor) or not isinstance(after, Tensor):
            return []
        if before.dim() != after.dim():
            return []
        grown = [dim for dim in range(before.dim()) if after.shape[dim] != before.shape[dim]]
        if len(grown) > 1 or any(after.shape[dim] != before.shape[dim] + 1 for dim in grown):
            return []
        for dim in grown:
            entry = after.narrow(dim, before.shape[dim], 1)
            if entry.numel() and not entry.is_complex():
                entries.append((name, entry))
            after = after.narrow(dim, 0, before.shape[dim])
        kept.append((name, after))
    return entries if disagreement(case, kept, usual) is None else []


def _is_one_of(entry: Tensor, values: tuple[float, ...]) -> bool:
    """Whether all elements are one of the numbers."""
    wide = entry.double()
    return any(bool(torch.isclose(wide, wide.new_tensor(v), equal_nan=True).all()) for v in values)


def _script(case: Case, way: _Grown) -> str:
    place = expression(case, way.argument)
    values = ", ".join(f"float('{value}')" for value in dict.fromkeys(way.values))
    return (
        call_lines("")
        + "\nusual = call(*inputs())\nargs, kwargs = inputs()\nargs = list(args)\n"
        + f"{place} = {way.code.format(place)}\nmore = call(args, kwargs)\n"
        + "entries = []\nfor before, after in zip(usual, more):\n"
        + "    for dim, (size, larger) in enumerate(zip(before.shape, after.shape)):\n"
        + "        entries += [after.narrow(dim, size, 1).double()] * (larger == size + 1)\n"
        + f"values = [torch.tensor(value, dtype=torch.float64) for value in ({values},)]\n"
        + "assert any(\n    torch.isclose(entry, value, equal_nan=True).all() "
        + "for entry in entries for value in values\n), entries\n"
    )


def _speaks_of_empty_groups(op: Op) -> bool:
    return any(values_of_empty_groups(op, argument.name) for argument in op.arguments)


FINDINGS = {
    "empty-group-mismatch": Explanation(
        meaning=(
            "A docstring says what a group without members gives: NaN, 0, or another number. With one more "
            "group, to which nothing belongs, no result has that number for it."
        ),
        why=(
            "Callers look for that number, such as NaN, to find the groups without members. Another one, "
            "such as a mean of 0, is taken for a result."
        ),
        fix=(
            "Treat groups with a count of 0 as the docstring says: `count.clamp(min=1)` turns 0 / 0 into "
            "0, and a buffer that starts at 0 or at infinity keeps that. Or correct the docstring."
        ),
        before="""
mean = total / count.clamp(min=1)
""",
        after="""
mean = (total / count.clamp(min=1)).masked_fill(count == 0, torch.nan)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.empty_group",
    summary="a group without members gives what a docstring says",
    run=check_empty_group,
    gradients=False,
    needs=_speaks_of_empty_groups,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        'An empty group that gives something else than its docstring says ("NaN for a zone that has '
        'none"). The number of groups, such as `num_zones`, grows by one, or offsets and lengths get one '
        "more entry for an empty part. Where results have one more entry and are the same otherwise, one "
        "of them must have a documented number there."
    ),
    cannot_see=(
        "Groups that are named in another way than the argument, and results of several kinds of which "
        "one has a documented number."
    ),
    cost="calls",
)
