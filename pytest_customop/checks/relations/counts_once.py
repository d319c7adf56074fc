"""`relations.counts_once`: integers that come more than once count once, if a docstring says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import first_sentence
from ...cases.tensors import base_name, is_plain
from ...core.wording import docstring_says
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, Leaves, expression, skip_if_incomparable
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement
from .other_numbers import results_with
from .scripts import call_lines, compare_lines

_ONCE = re.compile(
    r"\bonce\b[^.;]*\b(however|no matter|regardless|even if)\b|\bcounts? (only |just )?once\b"
    r"|\b(however|no matter how|regardless of how) (often|many times)\b[^.;]*\bonce\b"
    r"|\b(duplicates?|repeated \w+|repetitions?) (((is|are) )?(ignored|counted once|left out)|counts? once"
    r"|(has|have) no effect|makes? no difference|(does|do) not matter)\b",
    re.I,
)
_PLACES = 6  # where three elements are looked at
_Three = tuple[int, int, int]
_Results = Callable[[_Three], "Leaves | None"]


class _Broken(NamedTuple):
    """Two lists of the same numbers, some of them repeated, that give different results.

    Args:
        path: of the tensor.
        at: the place of the first of three elements.
        one, other: their numbers.
        wrong: the difference.
    """

    path: str
    at: int
    one: _Three
    other: _Three
    wrong: Disagreement


def check_counts_once(case: Case) -> None:
    """Give two numbers in three places, each of them twice in turn, and in other orders."""
    skip_if_incomparable(case)
    if not any(_tensors(case)):
        raise skip("nothing-to-check", "no argument holds three integers", unjudged=False)
    reason = "no three elements give the same in every order, and something else if one is replaced"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        path, at, one, other, wrong = broken
        raise fail(
            "repeated-counts-again",
            f"{case.op.name}: with {[*one]} in {path} from place {at} on it does not give the same as with "
            f"{[*other]}, which has the same numbers: {wrong}",
            docstring_says(first_sentence(case.op, _ONCE)),
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _says_so(op: Op) -> bool:
    return bool(first_sentence(op, _ONCE))


def _tensors(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    for path, tensor in case.inputs().tensors():
        if tensor.dtype not in (torch.int16, torch.int32, torch.int64) or not is_plain(tensor):
            continue
        is_pairs = tensor.dim() > 1 and 2 in tensor.shape  # such as the two ends of edges
        is_written = base_name(path) in case.op.mutated
        if tensor.dim() and tensor.shape[-1] >= 3 and not (is_pairs or is_written):
            yield path, tensor.detach()


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether three elements have no order, and the first ones whose repetition matters."""
    calls, judged = Caller(case), False
    for path, tensor in _tensors(case):
        for at in range(min(_PLACES, tensor.shape[-1] - 2)):
            a, b, c = (int(number) for number in tensor.flatten()[at : at + 3])
            results = partial(_results, calls, path, tensor, at)
            if len({a, b, c}) < 3 or not _counts_in_any_order(case, results, (a, b, c)):
                continue
            judged = True
            once, expected = (a, a, b), results((a, a, b))
            for again in ((a, b, a), (a, b, b)):
                wrong = _difference(case, results(again), expected)
                if wrong is not None:
                    return True, _Broken(path, at, again, once, wrong)
    return judged, None


def _counts_in_any_order(case: Case, results: _Results, numbers: _Three) -> bool:
    """Whether three numbers give the same in other orders, and something else if one is replaced."""
    a, b, c = numbers
    given = results(numbers)
    for swapped in map(results, ((b, a, c), (a, c, b))):
        if swapped is None or given is None or disagreement(case, swapped, given) is not None:
            return False
    return _difference(case, results((b, b, c)), given) is not None


def _difference(case: Case, actual: Leaves | None, expected: Leaves | None) -> Disagreement | None:
    """How results differ; None also if the op raises."""
    if actual is None or expected is None:
        return None
    return disagreement(case, actual, expected)


def _results(
    calls: Caller, path: str, tensor: torch.Tensor, at: int, numbers: _Three
) -> Leaves | None:
    """The results with other numbers in three places of a tensor; None if the op raises."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[at : at + 3] = torch.tensor(numbers, device=changed.device)
    return results_with(calls, path, changed)


def _script(case: Case, broken: _Broken) -> str:
    place = expression(case, broken.path)
    return (
        call_lines(broken.wrong.name)
        + "\ndef with_numbers(numbers):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"    {place} = {place}.clone(memory_format=torch.contiguous_format)\n"
        + f"    {place}.view(-1)[{broken.at} : {broken.at + 3}] = torch.tensor(numbers).to({place})\n"
        + "    return call(args, kwargs)\n\n\n"
        + f"got, expected = with_numbers({[*broken.one]}), with_numbers({[*broken.other]})\n"
        + compare_lines(case, broken.wrong.name)
    )


FINDINGS = {
    "repeated-counts-again": Explanation(
        meaning=(
            "A docstring says that an integer that comes several times counts once. Lists of the same "
            "integers, in another order or with another one repeated, give different results."
        ),
        why=(
            "Only adjacent elements are compared, as after a sort that is missing, or each "
            "occurrence is applied in turn. A token that comes again later counts twice."
        ),
        fix=(
            "Remove repetitions first (`torch.unique`, a set), or mark what has been seen. If each one is "
            "meant to count, correct the docstring."
        ),
        before="""
for token in tokens:
    if token != last:
        scores[token] /= penalty
    last = token
""",
        after="""
for token in set(tokens):
    scores[token] /= penalty
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.counts_once",
    summary="integers that come more than once count once, if a docstring says so",
    run=check_counts_once,
    gradients=False,
    needs=_says_so,
    integer_tensors=True,
    variants=(),
    findings=FINDINGS,
    catches=(
        'Repeated integers that count again where a docstring says "once, however often", or that '
        "duplicates are ignored. Three different adjacent elements are searched for that give the same in "
        "other orders. Then two of the numbers take the three places: `a b a`, `a a b` and `a b b` must "
        "give the same."
    ),
    cannot_see="Integers whose order matters, and lists of fewer than three different ones.",
    cost="calls",
)
