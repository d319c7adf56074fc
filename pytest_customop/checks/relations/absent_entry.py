"""`relations.absent_entry`: None in a list of optional tensors concerns its own entry alone."""

from __future__ import annotations

import re
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import is_differentiable
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
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
from .compare import Disagreement, disagreement, is_unsteady

# (path of the entry, how another entry differs); None without one.
_Answer = tuple[str, Disagreement] | None

_LIST = "List[Optional[Tensor]]"
_INDEX = re.compile(r"\[(\d+)\]")
_WRITTEN = re.compile(r"argument (.+) after the call")


def check_absent_entry(case: Case) -> None:
    """Compare the results of all other entries with those for a list in which one entry is None."""
    skip_if_incomparable(case)
    reason = "the op takes no None in its lists, or its entries depend on each other"
    answer = answer_if_taken(case, _answer, reason)
    if answer is not None:
        absent, wrong = answer
        raise fail(
            "absent-entry-changes-others",
            f"{case.op.name}: with {absent}=None it gives something else for another entry: {wrong}",
            repro=_script(case, absent, wrong.name),
            picture=wrong.picture,
        )


def _answer(case: Case) -> tuple[bool, _Answer]:
    """Whether the op takes None in a list of independent entries, and the first one that changes others."""
    calls = Caller(case)

    def again() -> Leaves:
        return copied_results(calls(case.inputs())) or []

    expected = again()
    tried = False
    for name, entries in _lists(case):
        at = next(index for index, entry in enumerate(entries) if entry is not None)
        changed = copied_results(calls(_with_other_entry(case, at, len(entries))))
        if changed is None or disagreement(case, _besides(changed, at), expected) is not None:
            continue  # entries depend on each other
        absent = f"{name}[{at}]"
        others = _besides(
            copied_results(calls(with_argument(case.inputs(), absent, None))) or [], at
        )
        tried |= bool(others)
        wrong = disagreement(case, others, expected)
        if wrong is not None and not is_unsteady(again, expected, others, wrong.name):
            return True, (absent, wrong)
    return tried, None


def _lists(case: Case) -> list[tuple[str, Any]]:
    """The lists of optional tensors with two tensors or more."""
    names = _optional_lists(case.op)
    return [
        (argument.name, value)
        for argument, value in case.op.bind(case.sample)
        if argument.name in names and sum(entry is not None for entry in value or ()) > 1
    ]


def _optional_lists(op: Op) -> list[str]:
    return [argument.name for argument in op.arguments if str(argument.type) == _LIST]


def _takes_optional_lists(op: Op) -> bool:
    return bool(_optional_lists(op))


def _with_other_entry(case: Case, at: int, length: int) -> Arguments:
    """The arguments with other numbers in one entry of each list of this length."""
    lists = {
        argument.name
        for argument, value in case.op.bind(case.sample)
        if isinstance(value, (list, tuple)) and len(value) == length
    }

    def changed(name: str, tensor: torch.Tensor) -> torch.Tensor:
        base, bracket, index = name.partition("[")
        is_entry = base in lists and bracket != "" and int(index[:-1]) == at
        if not (is_entry and is_differentiable(tensor.dtype)):
            return tensor
        return (tensor.detach() * 2 + 1).requires_grad_(tensor.requires_grad)

    return case.inputs().map_distinct(changed)


def _besides(results: Leaves, at: int) -> Leaves:
    """The results that belong to other entries of lists."""
    return [
        (name, value)
        for name, value in results
        if (index := _INDEX.search(name)) and int(index[1]) != at
    ]


def _script(case: Case, absent: str, result: str) -> str:
    written = _WRITTEN.fullmatch(result)
    place = (
        expression(case, written[1])
        if written
        else re.sub(
            r"output ?(\d*)", lambda found: "result" + f"[{found[1]}]" * bool(found[1]), result
        )
    )
    name, _, index = absent.partition("[")
    entries = expression(case, name)
    call = f"result = op(*args, **kwargs)\n{{}} = {place}\n"
    return (
        f"\nargs, kwargs = inputs()\nargs = list(args)\n{call.format('expected')}"
        f"args, kwargs = inputs()\nargs = list(args)\n{entries} = list({entries})\n"
        f"{entries}[{index[:-1]}] = None\n{call.format('got')}"
        "torch.testing.assert_close(got, expected)\n"
    )


FINDINGS = {
    "absent-entry-changes-others": Explanation(
        meaning=(
            "With None in place of one tensor of a list, the op gives something else for another entry. "
            "With other numbers in that entry, all other entries stay as they are."
        ),
        why=(
            "A parameter without a gradient, for example, moves all gradients behind it to other "
            "parameters, and nothing raises."
        ),
        fix=(
            "Leave out all that belongs to the entry, not the None alone: filter pairs, after `zip`. If an "
            'absent entry is meant to change others, write checks=["-relations.absent_entry"].'
        ),
        before="""
grads = [grad for grad in grads if grad is not None]
for param, grad in zip(params, grads):
    param.sub_(rate * grad)
""",
        after="""
for param, grad in zip(params, grads):
    if grad is not None:
        param.sub_(rate * grad)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.absent_entry",
    summary="None in a list of optional tensors concerns its own entry alone",
    run=check_absent_entry,
    gradients=False,
    needs=_takes_optional_lists,
    variants=(),
    findings=FINDINGS,
    catches=(
        "An op over lists that belong together, such as parameters and their gradients, which filters the "
        "Nones out of one list alone: entries behind them get what belongs to others."
    ),
    cannot_see="Lists of one entry, ops whose entries depend on each other, and the entry itself.",
    cost="calls",
)
