"""`relations.infinity`: infinite numbers give what the largest finite ones give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import first_sentence, lines_about, sentences
from ...cases.documented_numbers import limits_argument
from ...cases.documented_ranges import closed_ranges
from ...cases.tensors import base_name
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .other_numbers import replaceable, results_with
from .scripts import call_lines, compare_lines

_TENSORS = 2
_EVERY = 3  # each third element
_LARGE = (0.25, 0.75)  # of the largest number of the dtype
_INFINITE = re.compile(r"\binf\w*|finite|\u221e", re.I)
_MISSING = re.compile(
    r"(?=.*\bnan\b)(?=.*\b(missing|mark(s|ed)?|ignored?|skip(s|ped)?|left out|unknown)\b)",
    re.I | re.S,
)
_ANY_VALUE = re.compile(
    r"\b(every|any|all) ((float|real|floating[- ]point) )?(values?|numbers?) (is|are) "
    r"(allowed|accepted|valid)\b",
    re.I,
)


class _Broken(NamedTuple):
    """Infinite numbers that give something else.

    Args:
        path: of the tensor.
        sign: of the numbers.
        wrong: the difference.
    """

    path: str
    sign: int
    wrong: Disagreement


def check_infinity(case: Case) -> None:
    """Put two very large numbers and then infinity into some places of a tensor."""
    skip_if_incomparable(case)
    if not any(_tensors(case)):
        reason = "no argument holds numbers without a range, of whose infinity no docstring speaks"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = (
        "two very large numbers give something else than each other, or the same as the sample's"
    )
    broken = answer_if_taken(case, _answer, reason)
    if broken is None:
        return
    said = first_sentence(case.op, _ANY_VALUE)
    shown_on = None if said else case.as_beyond("infinite numbers, which no docstring mentions")
    sign = "-" if broken.sign < 0 else ""
    raise fail(
        "infinity-differs",
        f"{case.op.name}: {sign}infinity in each third element of {broken.path} does not give what any "
        f"very large number gives there: {broken.wrong}",
        docstring_says(said) if said else "",
        repro=_script(case, broken),
        case=shown_on,
        picture=broken.wrong.picture,
    )


def _tensors(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    found = 0
    for path, tensor in replaceable(case):
        name = base_name(path)
        has_range = closed_ranges(case.op, name) or limits_argument(case.op, name)
        if (
            not has_range
            and not _speaks_of_infinity(case.op, name)
            and tensor.numel() > 1
            and tensor.itemsize > 1
            and found < _TENSORS
        ):
            found += 1
            yield path, tensor


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether large numbers change results, all in the same way, and infinite ones that do not."""
    calls, judged = Caller(case), False
    for path, tensor in _tensors(case):
        before = results_with(calls, path, tensor)
        for sign in (1, -1):
            largest = sign * torch.finfo(tensor.dtype).max
            one, other = (
                results_with(calls, path, _with(tensor, share * largest)) for share in _LARGE
            )
            if before is None or one is None or other is None:
                continue
            same = disagreement(case, one, other) is None
            if not same or disagreement(case, one, before) is None:
                continue
            infinite = results_with(calls, path, _with(tensor, sign * torch.inf))
            if infinite is None:
                continue
            judged = True
            wrong = disagreement(case, infinite, one)
            if wrong is not None:
                return True, _Broken(path, sign, wrong)
    return judged, None


def _with(tensor: torch.Tensor, number: float) -> torch.Tensor:
    places = (torch.arange(tensor.numel()) % _EVERY == 1).reshape(tensor.shape)
    return torch.where(places.to(tensor.device), number, tensor).to(tensor.dtype)


def _script(case: Case, broken: _Broken) -> str:
    place = expression(case, broken.path)
    return (
        call_lines(broken.wrong.name)
        + "\ndef with_number(number):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    x = {place}.detach()\n"
        + f"    places = (torch.arange(x.numel()) % {_EVERY} == 1).reshape(x.shape).to(x.device)\n"
        + f"    number = number or {_LARGE[0]} * torch.finfo(x.dtype).max\n"
        + f"    {place} = torch.where(places, {broken.sign} * number, x).to(x.dtype)\n"
        + "    return call(args, kwargs)\n\n\n"
        + "expected, got = with_number(None), with_number(torch.inf)\n"
        + compare_lines(case, broken.wrong.name)
    )


def _speaks_of_others(op: Op) -> bool:
    """Whether a docstring speaks of NaN as a mark, or of any number."""
    said = sentences(op, of_op=True)
    return any(_MISSING.search(each) or _ANY_VALUE.search(each) for each in said)


def _speaks_of_infinity(op: Op, argument: str) -> bool:
    """Whether a docstring speaks of infinite or finite numbers, and not in the text about another one."""
    others = [lines_about(op, each.name) for each in op.arguments if each.name != argument]
    texts = [" ".join(text.split()) for text in others]
    said = (each for each in sentences(op, of_op=True) if not any(each in text for text in texts))
    return any(map(_INFINITE.search, said))


FINDINGS = {
    "infinity-differs": Explanation(
        meaning=(
            "Two very large numbers give the same in the same places of a tensor, and infinity does not. A "
            "docstring says that any number is allowed, or that NaN marks what is missing; it does not "
            "mention infinity."
        ),
        why=(
            "Missing numbers are found by `isfinite`, which leaves out infinite ones too. A feature that "
            "is infinite belongs into the last bucket, and a distance that is infinite is the largest."
        ),
        fix=(
            "Test `isnan`. If infinite numbers are meant to be something else, say so in the docstring, or "
            "have the op raise."
        ),
        before="""
bucket = torch.where(x.isfinite(), bucket, 0)
""",
        after="""
bucket = torch.where(x.isnan(), 0, bucket)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.infinity",
    summary="infinite numbers give what the largest finite ones give",
    run=check_infinity,
    gradients=False,
    needs=_speaks_of_others,
    variants=(),
    findings=FINDINGS,
    catches=(
        "`isfinite` in place of `isnan`. Where a docstring says that NaN marks something missing, or that "
        "any number is allowed, each third element of a tensor becomes a quarter and three quarters of the "
        "largest number of its dtype, and infinity; then the same below 0. If the two give the same, and "
        "something else than the sample, infinity must give that too. It is a note unless a docstring "
        "allows any number."
    ),
    cannot_see="Ops whose docstrings mention infinity or finite numbers, and arguments with a range.",
    cost="calls",
)
