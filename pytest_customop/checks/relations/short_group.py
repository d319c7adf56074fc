"""`relations.short_group`: a group that is not full gives the same as a group of just its size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
from ...cases.tensors import base_name, is_plain
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
from .compare import Disagreement, disagreement, is_so_in_double, shapes
from .scripts import call_lines, position

_SIZE = re.compile(r"(^|_)(groups?|blocks?|chunks?|tiles?|segments?)_?(size|len|length|width)$")
_SHORT = re.compile(
    r"\b(short(er)?|smaller|fewer|partial|incomplete|remain\w*|ragged|rest)\b|\bnot (divide|a multiple)\b",
    re.I,
)
_COUNT = re.compile(r"\bceil(_?div)?\([^)]*\)|//")  # how many groups there are
_FILLED = re.compile(r"\b(pad(s|ded|ding)?|filled|zeros? (are )?(append|add))", re.I)


class _Trial(NamedTuple):
    """Numbers of the tensor, with an expression of `x`, those of its first row, for a script."""

    code: str
    numbers: Callable[[torch.Tensor], torch.Tensor]


class _Broken(NamedTuple):
    """A size of groups that is larger than the row, and what differs.

    Args:
        path: of the tensor.
        name: of the argument with the size.
        code: of the trial.
        row: how long a row is.
        size: of groups.
        wrong: the difference.
    """

    path: str
    name: str
    code: str
    row: int
    size: int
    wrong: Disagreement


# What is put in place of missing numbers, mostly 0, shows best where 0 is far from all others.
_TRIALS = (
    _Trial("x", lambda x: x),
    _Trial("x.abs() + 1", lambda x: x.abs() + 1),
    _Trial("-x.abs() - 1", lambda x: -x.abs() - 1),
)


def check_short_group(case: Case) -> None:
    """Call the op on one row, in a group of its length and in larger ones, which are not full."""
    skip_if_incomparable(case)
    if not any(_sizes(case)):
        reason = "the op has no single tensor, or no size of groups"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op takes no single row in a larger group, or its results have other sizes then"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        row = f"a row of {broken.row} numbers of {broken.path}"
        row += f" ({broken.code})" if broken.code != "x" else ""
        raise fail(
            "short-group-differs",
            f"{case.op.name}: for {row} it gives something else with {broken.name}={broken.size} than "
            f"with {broken.name}={broken.row}: {broken.wrong}",
            "In both cases all numbers are in one group. A docstring says that a group may be shorter.",
            repro=_script(case, broken),
            picture=broken.wrong.picture,
        )


def _sizes(case: Case) -> Iterator[tuple[str, str]]:
    """(path of the tensor, argument with the size of groups); the op has one tensor."""
    tensors = case.inputs().tensors()
    if len(tensors) != 1:
        return
    ((path, tensor),) = tensors
    unfit = base_name(path) in case.op.mutated or not is_plain(tensor)
    if unfit or not tensor.is_floating_point() or not tensor.dim() or tensor.shape[-1] < 2:
        return
    for name in _names(case.op):
        if not _scales_with(case.op, name):
            yield path, name


def _names(op: Op) -> list[str]:
    return [
        item.name for item in op.arguments if str(item.type) == "int" and _SIZE.search(item.name)
    ]


def _scales_with(op: Op, name: str) -> bool:
    """Whether a sentence multiplies or divides something by the size."""
    by = re.compile(
        rf"([/*]|\b((divided|scaled|multiplied) by|times|sqrt|root of)\b)[\s`(]*{re.escape(name)}\b",
        re.I,
    )
    texts = (_COUNT.sub("", sentence) for sentence in sentences(op, of_op=True))
    return any(map(by.search, texts))


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op takes larger groups, and the first one that gives something else."""
    is_taken = False
    for path, name in _sizes(case):
        row = dict(case.inputs().tensors())[path].shape[-1]
        for trial in _TRIALS:
            for size in (row + 1, 2 * row):
                pair = _pair(case, path, name, trial, size)
                if pair is None:
                    continue
                is_taken = True
                wrong = disagreement(case, *pair)
                if wrong is not None and _is_wrong_in_double(case, path, name, trial, size):
                    return True, _Broken(path, name, trial.code, row, size, wrong)
    return is_taken, None


def _pair(
    case: Case, path: str, name: str, trial: _Trial, size: int
) -> tuple[Leaves, Leaves] | None:
    """The results in a larger group and in one that is full; None if they cannot be compared."""
    calls = Caller(case)

    def first_row(_: str, tensor: torch.Tensor) -> torch.Tensor:
        row = tensor.detach().reshape(-1, tensor.shape[-1])[:1]
        return trial.numbers(row).reshape(*[1] * (tensor.dim() - 1), -1)

    def results(groups: int) -> Leaves | None:
        arguments = case.inputs().map_distinct(first_row)
        return copied_results(calls(with_argument(arguments, name, groups)))

    larger, full = results(size), results(dict(case.inputs().tensors())[path].shape[-1])
    if larger is None or full is None or shapes(larger) != shapes(full):
        return None
    return larger, full


def _is_wrong_in_double(case: Case, path: str, name: str, trial: _Trial, size: int) -> bool:
    """Whether results differ in double precision too; True if the op does not support it."""

    def ask(wide: Case) -> bool:
        pair = _pair(wide, path, name, trial, size)
        return pair is None or disagreement(wide, *pair) is not None

    return is_so_in_double(case, ask)


def _script(case: Case, broken: _Broken) -> str:
    place, size = expression(case, broken.path), expression(case, broken.name)
    return (
        call_lines(broken.wrong.name)
        + "\ndef result(size):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    x = {place}.detach().reshape(-1, {broken.row})[:1]\n"
        + f"    {place} = ({broken.code}).reshape(*[1] * ({place}.dim() - 1), -1)\n"
        + f"    {size} = size\n"
        + f"    return call(args, kwargs)[{position(case, broken.wrong.name)}]\n\n\n"
        + f"torch.testing.assert_close(result({broken.size}), result({broken.row}), equal_nan=True)\n"
    )


def _may_be_short(op: Op) -> bool:
    """Whether an op has a size of groups, and a docstring says that a group may be shorter, not padded."""
    texts = [*sentences(op, of_op=True)] if _names(op) else []
    return any(map(_SHORT.search, texts)) and not any(map(_FILLED.search, texts))


FINDINGS = {
    "short-group-differs": Explanation(
        meaning=(
            "A row that is shorter than a group gives another result than in a group of just its length. A "
            "docstring says that a group may be shorter than the others."
        ),
        why=(
            "The last group is filled up, mostly with zeros, which enter its minimum, maximum or mean. "
            "Whatever is not a multiple of the size of groups gets a wrong last group."
        ),
        fix=(
            "Leave out of each sum, extreme and count what was filled in, or handle the last group alone. "
            "If it is meant to count, say in the docstring that groups are padded."
        ),
        before="""
groups = pad(x, (0, -len(x) % size)).reshape(-1, size)
low = groups.amin(-1)
""",
        after="""
low = torch.stack([group.amin() for group in x.split(size)])
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.short_group",
    summary="a group that is not full gives the same as a group of just its size",
    run=check_short_group,
    gradients=False,
    needs=_may_be_short,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Zeros that fill up the last group and count in its minimum, maximum or mean. For an op with an "
        "argument such as `group_size` whose docstring says that a group may be shorter, one row is called "
        "in a group of its length and in larger ones, also with numbers that are all above or below 0."
    ),
    cannot_see=(
        "Ops with several tensors, results whose sizes depend on the size of groups, and ops whose "
        "docstring speaks of padding, or multiplies by the size."
    ),
    cost="calls",
)
