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
from ..values.memory.calls import Caller, Leaves, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .other_numbers import results_with
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


def _ids(case: Case) -> Iterator[tuple[str, torch.Tensor, int]]:
    """(path, tensor, largest number allowed) of the int64 tensors whose documented range goes far."""
    for path, tensor in case.inputs().tensors():
        if tensor.dtype != torch.int64 or not is_plain(tensor) or not tensor.numel():
            continue
        documented = integer_range(case.op, base_name(path))
        if documented is not None and documented.high > _LARGE and int(tensor.min()) >= 0:
            yield path, tensor, documented.high


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether some ids wrap, and the first ones that do so only while they are small."""
    calls, wraps = Caller(case), False
    for path, ids, highest in _ids(case):
        expected = results_with(calls, path, ids)
        if expected is None:
            continue
        for period in _periods(case):
            if _wraps(calls, path, ids, period, expected):
                wraps = True
                broken = _beyond(calls, path, ids, period, highest, expected)
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


def _wraps(calls: Caller, path: str, ids: torch.Tensor, period: int, expected: Leaves) -> bool:
    """Whether a few periods change nothing, and one more than a period does."""
    after = results_with(calls, path, ids + period + 1)
    if after is None or disagreement(calls.case, after, expected) is None:
        return False
    for rounds in _FEW:
        same = results_with(calls, path, ids + rounds * period)
        if same is None or disagreement(calls.case, same, expected) is not None:
            return False
    return True


def _beyond(
    calls: Caller, path: str, ids: torch.Tensor, period: int, highest: int, expected: Leaves
) -> _Broken | None:
    """The first of growing numbers of periods that changes the results."""
    largest = int(ids.max())
    right = _FEW[-1]
    for exponent in _EXPONENTS:
        rounds = 2**exponent // period + 1
        if rounds <= right or rounds * period + largest > highest:
            continue
        after = results_with(calls, path, ids + rounds * period)
        if after is None:
            return None  # the op may say that they are too large
        wrong = disagreement(calls.case, after, expected)
        if wrong is not None:
            return _Broken(path, period, right, rounds, wrong)
        right = rounds
    return None


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
