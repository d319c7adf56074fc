"""`relations.large_ids`: ids that wrap around a table do so however large they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_integers import integer_range
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
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .scripts import call_lines, compare_lines

_LARGE = 2**32  # ids that a docstring allows to be larger may be 64-bit hashes
_FEW = (1, 2, 3)  # rounds from which a period is learned
_EXPONENTS = (8, 16, 20, 24, 28, 30, 31, 32, 40, 53, 62)  # of what is added
_MOST = 24  # periods that are tried


class _Broken(NamedTuple):
    """A number of periods that changes the results, and a smaller one that does not.

    Args:
        path: of the ids.
        period: after which results are the same.
        right, rounds: how many periods are added, without an effect and with one.
        wrong: the difference.
    """

    path: str
    period: int
    right: int
    rounds: int
    wrong: Disagreement


def check_large_ids(case: Case) -> None:
    """Add few and many periods to ids; a period is a size, a number of the call, or a product of two."""
    skip_if_incomparable(case)
    if not any(_ids(case)):
        reason = "no docstring gives int64 numbers a range beyond 2**32"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "no integers wrap around a size or a number of the call"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        path, period, right, rounds, wrong = broken
        raise fail(
            "large-ids-differ",
            f"{case.op.name}: with {rounds * period} added to {path} it gives something else, and with "
            f"{right * period} the same; both are multiples of {period}: {wrong}",
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _ids(case: Case) -> Iterator[tuple[str, int]]:
    """The int64 tensors whose documented range goes far, each with the largest number of that range."""
    for path, tensor in case.inputs().tensors():
        if tensor.dtype != torch.int64 or not is_plain(tensor) or not tensor.numel():
            continue
        documented = integer_range(case.op, base_name(path))
        if documented is not None and documented.high > _LARGE and int(tensor.min()) >= 0:
            yield path, documented.high


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether some ids wrap, and the first ones that do so only while they are small."""
    calls, wraps = Caller(case), False
    for path, highest in _ids(case):
        for period in _periods(case):
            expected = _wrapped(calls, path, period)
            if expected is None:
                continue
            wraps = True
            broken = _beyond(calls, path, period, highest, expected)
            if broken is not None:
                return True, broken
            break
    return wraps, None


def _periods(case: Case) -> list[int]:
    """The sizes of the floating-point tensors, the numbers of the call, and products of two, from 2 on."""
    sizes = {
        size
        for _, tensor in case.inputs().tensors()
        if tensor.is_floating_point()
        for size in tensor.shape
    }
    numbers = {value for _, value in case.op.bind(case.sample) if type(value) is int}
    single = sorted(number for number in sizes | numbers if number > 1)
    products = sorted(
        {left * right for left, right in combinations_with_replacement(single, 2)} - {*single}
    )
    return [*single, *products][:_MOST]


def _wrapped(calls: Caller, path: str, period: int) -> Leaves | None:
    """The results, if a few periods change nothing and one more than a period does; else None."""
    expected = _results(calls, path, 0)
    after = _results(calls, path, period + 1) if expected is not None else None
    if expected is None or after is None or disagreement(calls.case, after, expected) is None:
        return None
    for rounds in _FEW:
        same = _results(calls, path, rounds * period)
        if same is None or disagreement(calls.case, same, expected) is not None:
            return None
    return expected


def _beyond(
    calls: Caller, path: str, period: int, highest: int, expected: Leaves
) -> _Broken | None:
    """The first of growing numbers of periods that changes the results."""
    largest = int(dict(calls.case.inputs().tensors())[path].max())
    right = _FEW[-1]
    for exponent in _EXPONENTS:
        rounds = 2**exponent // period + 1
        if rounds <= right or rounds * period + largest > highest:
            continue
        after = _results(calls, path, rounds * period)
        if after is None:
            return None  # the op may say that they are too large
        wrong = disagreement(calls.case, after, expected)
        if wrong is not None:
            return _Broken(path, period, right, rounds, wrong)
        right = rounds
    return None


def _results(calls: Caller, path: str, added: int) -> Leaves | None:
    """What the op gives with a number added to ids; None if it raises."""

    def moved(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor + added if name == path else tensor

    return copied_results(calls(calls.case.inputs().map_distinct(moved)))


def _script(case: Case, broken: _Broken) -> str:
    path, period, right, rounds, wrong = broken
    place = expression(case, path)
    return (
        call_lines(wrong.name)
        + "\n\ndef after(added):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place} + added\n    return call(args, kwargs)\n\n\n"
        + f"expected = after({right} * {period})\ngot = after({rounds} * {period})\n"
        + compare_lines(case, wrong.name)
    )


def _may_have_ids(op: Op) -> bool:
    documented = [integer_range(op, argument.name) for argument in op.arguments]
    return any(each is not None and each.high > _LARGE for each in documented)


FINDINGS = {
    "large-ids-differ": Explanation(
        meaning=(
            "Integers wrap around a table: with the size of the table added to them the results are the "
            "same. For larger ones, which a docstring allows, they are not."
        ),
        why=(
            "Hashed ids have 63 or 64 bits. Cut to 32 bits, or rounded to a float, they refer to other "
            "rows of the table; a negative remainder refers to memory before it."
        ),
        fix=(
            "Take the remainder in int64: no `int`, `.int()` or float on the way. If the op is made for "
            "smaller numbers, give their range in the docstring, or raise for larger ones."
        ),
        before="""
row = ids.to(torch.int32) % table.shape[0]
""",
        after="""
row = ids % table.shape[0]
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.large_ids",
    summary="ids that wrap around a table do so however large they are",
    run=check_large_ids,
    gradients=False,
    needs=_may_have_ids,
    integer_tensors=True,
    variants=(),
    findings=FINDINGS,
    catches=(
        "Ids of 64 bits that pass through int32 or a float before a table is looked up: int64 tensors to "
        "which a docstring gives a range beyond 2**32. A period is sought among the sizes and integers of "
        "the call, and the products of two. If results are the same with one, two and three periods added, "
        "and others with one more, they must be the same for any number of periods within the range."
    ),
    cannot_see=(
        "Ops whose docstring gives no range, hashes that mix bits, and tables of 2, 4, 8, ... rows: cut to "
        "32 bits, an id has the same remainder."
    ),
    cost="calls",
)
