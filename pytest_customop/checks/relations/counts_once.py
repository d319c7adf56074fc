"""`relations.counts_once`: integers that come more than once count once, if a docstring says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import sentences
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
_PLACES = 6  # where three neighbours are looked at
_Three = tuple[int, int, int]


class _Broken(NamedTuple):
    """Two lists of the same numbers, some of them repeated, that give different results.

    Args:
        path: of the tensor.
        at: the place of the first of three neighbours.
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
    reason = (
        "no three neighbours give the same in every order, and something else if one is replaced"
    )
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        path, at, one, other, wrong = broken
        raise fail(
            "repeated-counts-again",
            f"{case.op.name}: with {[*one]} in {path} from place {at} on it does not give the same as with "
            f"{[*other]}: {wrong}",
            docstring_says(_sentence(case.op)),
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _sentence(op: Op) -> str:
    return " ".join(next(filter(_ONCE.search, sentences(op, of_op=True)), "").split())


def _says_so(op: Op) -> bool:
    return bool(_sentence(op))


def _tensors(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    for path, tensor in case.inputs().tensors():
        if tensor.dtype not in (torch.int16, torch.int32, torch.int64) or not is_plain(tensor):
            continue
        is_pairs = tensor.dim() > 1 and 2 in tensor.shape  # such as the two ends of edges
        is_written = base_name(path) in case.op.mutated
        if tensor.dim() and tensor.shape[-1] >= 3 and not (is_pairs or is_written):
            yield path, tensor.detach()


class _Neighbours(NamedTuple):
    """Three neighbours in a tensor, and calls with other numbers in their places.

    Args:
        calls: of the op.
        path, tensor: the tensor.
        at: the place of the first.
    """

    calls: Caller
    path: str
    tensor: torch.Tensor
    at: int

    def results(self, numbers: _Three) -> Leaves | None:
        """The results with these numbers; None if the op raises."""
        changed = self.tensor.clone(memory_format=torch.contiguous_format)
        changed.view(-1)[self.at : self.at + 3] = torch.tensor(numbers, device=changed.device)
        return results_with(self.calls, self.path, changed)

    def agree(self, one: _Three, other: _Three) -> bool:
        """Whether the op takes both, and gives the same."""
        return self.difference(one, other) is None and None not in map(self.results, (one, other))

    def difference(self, one: _Three, other: _Three) -> Disagreement | None:
        """How the results differ; None also if the op raises."""
        actual, expected = self.results(one), self.results(other)
        if actual is None or expected is None:
            return None
        return disagreement(self.calls.case, actual, expected)

    def broken(self) -> tuple[bool, _Broken | None]:
        """Whether their order does not matter and their numbers do, and lists that give something else."""
        a, b, c = (int(number) for number in self.tensor.flatten()[self.at : self.at + 3])
        is_free = len({a, b, c}) == 3 and all(
            self.agree(swapped, (a, b, c)) for swapped in ((b, a, c), (a, c, b))
        )
        if not is_free or self.difference((b, b, c), (a, b, c)) is None:
            return False, None
        other = (a, a, b)
        for one in ((a, b, a), (a, b, b)):
            wrong = self.difference(one, other)
            if wrong is not None:
                return True, _Broken(self.path, self.at, one, other, wrong)
        return True, None


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether three neighbours have no order, and the first ones whose repetition matters."""
    calls, judged = Caller(case), False
    for path, tensor in _tensors(case):
        for at in range(min(_PLACES, tensor.shape[-1] - 2)):
            found, broken = _Neighbours(calls, path, tensor, at).broken()
            judged |= found
            if broken is not None:
                return True, broken
    return judged, None


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
            "Only neighbours are compared with each other, as after a sort that is missing, or each "
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
        "duplicates are ignored. Three different neighbours are searched for that give the same in other "
        "orders. Then two of the numbers take the three places: `a b a`, `a a b` and `a b b` must give the "
        "same."
    ),
    cannot_see="Integers whose order matters, and lists of fewer than three different ones.",
    cost="calls",
)
