"""`relations.padding`: a sequence gives the same with padding behind it as cut off at its length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented_batches import allows_empty_sequences, sentence_of_padding
from ...core.wording import docstring_says
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
from .compare import Disagreement, disagreement, is_so_in_double
from .scripts import call_lines, position
from .sequences import Cut, cuts_of, empty_cuts_of, has_empty, ignores_padding

# What stands behind the end of a sequence: what the sample has there, or copies of one of its steps. Copies
# of the first show code that looks back from it to the last step of all.
_PADDINGS = ("", "first", "last")
# The same for a sequence of length 0, which is compared with one that has copies of its first step there.
_FOR_NONE = ("", "last")
_FIX_OF_NONE = (
    "Give a sequence of length 0 a result of its own, or raise. A softmax whose steps are all masked by a "
    "large negative number, such as -1e9, gives each the same weight: multiply the weights by the mask."
)


class _Broken(NamedTuple):
    """A sequence that gives something else with padding than without, and what.

    Args:
        padding: as in `_PADDINGS`.
    """

    cut: Cut
    padding: str
    wrong: Disagreement


def check_padding(case: Case) -> None:
    """Call the op with single sequences, with the padding behind them and cut off at their lengths."""
    skip_if_incomparable(case)
    if not any(cuts_of(case)):
        reason = "no argument holds lengths of sequences along one dim"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op takes no single sequence, or its results have other sizes"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        raise fail(
            "padding-has-influence",
            f"{case.op.name}: {_described(broken)}",
            docstring_says(sentence_of_padding(case.op)),
            None if broken.cut.length else _FIX_OF_NONE,
            repro=_script(case, broken),
            picture=broken.wrong.picture,
            case=_shown_on(case, broken.cut),
        )


def _described(broken: _Broken) -> str:
    cut, padding, wrong = broken
    if not cut.length:
        steps = f"its {cut.steps} steps of padding"
        return f"with a length of 0, the result for entry {cut.entry} depends on {steps}: {wrong}"
    equal = f", of which all behind its end are equal to its {padding} one," if padding else ","
    return (
        f"with a length of {cut.length} and {cut.steps} steps{equal} entry {cut.entry} gives something "
        f"else than cut off after {cut.length} steps: {wrong}"
    )


def _shown_on(case: Case, cut: Cut) -> Case | None:
    """The case with its reason to be a note, if nothing says that a sequence may have length 0."""
    is_shown = cut.length or has_empty(case, cut.lengths)
    if is_shown or allows_empty_sequences(case.op, cut.lengths):
        return None
    return case.as_beyond("a sequence of length 0")


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op takes a sequence alone, and the first one whose padding counts."""
    calls = Caller(case)
    is_taken = False
    for cut, padding in _tried(case):
        pairs = _pairs(calls, cut, padding)
        is_taken |= bool(pairs)
        wrong = _wrong(case, pairs)
        if wrong is not None and _is_wrong_in_double(case, cut, padding):
            return True, _Broken(cut, padding, wrong)
    return is_taken, None


def _tried(case: Case) -> Iterator[tuple[Cut, str]]:
    """Each sequence and what stands behind its end, then those of length 0."""
    yield from ((cut, padding) for cut in cuts_of(case) for padding in _PADDINGS)
    yield from ((cut, padding) for cut in empty_cuts_of(case) for padding in _FOR_NONE)


def _pairs(calls: Caller, cut: Cut, padding: str) -> list[tuple[Leaves, Leaves]]:
    """Each result of a sequence that can be compared, with padding and without, or with other padding."""
    other = None if cut.length else "first"
    padded, alone = (_results(calls, cut, what) for what in (padding, other))
    if padded is None or alone is None or len(padded) != len(alone):
        return []
    pairs = []
    for (name, left), (_, right) in zip(padded, alone, strict=True):
        kept = _without_padding(cut, left, right)
        if kept is not None:
            pairs.append(([(name, kept)], [(name, right)]))
    return pairs


def _results(calls: Caller, cut: Cut, padding: str | None) -> Leaves | None:
    """Copies of what the op gives for a sequence; None where it raises."""

    def taken(path: str, tensor: torch.Tensor) -> torch.Tensor:
        return cut.taken(path, tensor, padding)

    return copied_results(calls(calls.case.inputs().map_distinct(taken)))


def _without_padding(cut: Cut, padded: Any, alone: Any) -> Any:
    """A result without its entries for the padding; None if its sizes differ from `alone` even then."""
    if not isinstance(padded, torch.Tensor) or not isinstance(alone, torch.Tensor):
        return padded
    if padded.dim() != alone.dim() or (not cut.length and cut.steps in padded.shape):
        return None  # a result for each step has nothing but padding for an empty sequence
    for dim, sizes in enumerate(zip(padded.shape, alone.shape, strict=True)):
        if sizes == (cut.steps, cut.length):
            padded = padded.narrow(dim, 0, cut.length)
    return padded if padded.shape == alone.shape else None


def _wrong(case: Case, pairs: list[tuple[Leaves, Leaves]]) -> Disagreement | None:
    wrongs = (disagreement(case, padded, alone) for padded, alone in pairs)
    return next((wrong for wrong in wrongs if wrong is not None), None)


def _is_wrong_in_double(case: Case, cut: Cut, padding: str) -> bool:
    """Whether results differ in double precision too; True if the op does not support it."""

    def ask(wide: Case) -> bool:
        pairs = _pairs(Caller(wide), cut, padding)
        return not pairs or _wrong(wide, pairs) is not None

    return is_so_in_double(case, ask)


def _script(case: Case, broken: _Broken) -> str:
    cut, padding, wrong = broken
    at = position(case, wrong.name)
    lines, cuts = [], []
    for path, dim in cut.batch.items():
        place = expression(case, path)
        lines.append(f"    {place} = {place}.detach().narrow({dim}, {cut.entry}, 1).clone()\n")
    for path, dim in cut.dims:
        place = expression(case, path)
        if padding:
            lines.append(_copied(cut, place, dim, padding))
        shorter = f"    {place} = {place}.narrow({dim}, 0, {cut.length})\n"
        cuts.append("    " + (shorter if cut.length else _copied(cut, place, dim, "first")))
    lengths = expression(case, cut.lengths)
    return (
        call_lines(wrong.name)
        + "\ndef sequence(whole):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + "".join(lines)
        + f"    {lengths} = torch.full_like({lengths}, {cut.length})\n    if not whole:\n"
        + "".join(cuts)
        + "    return args, kwargs\n\n\n"
        + f"got, expected = call(*sequence(True))[{at}], call(*sequence(False))[{at}]\n"
        + "for dim, size in enumerate(expected.shape):\n    got = got.narrow(dim, 0, size)\n"
        + "torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5, equal_nan=True)\n"
    )


def _copied(cut: Cut, place: str, dim: int, padding: str) -> str:
    """The line of a script that fills the padding with copies of a step."""
    behind = f"{place}.narrow({dim}, {cut.length}, {cut.steps - cut.length})"
    return f"    {behind}.copy_({place}.narrow({dim}, {cut.step(padding)}, 1).clone())\n"


FINDINGS = {
    "padding-has-influence": Explanation(
        meaning=(
            "A docstring says that anything behind the end of a sequence is ignored. But with padding "
            "there, a sequence gives another result than cut off at its length, or one of length 0 depends "
            "on what stands in its places."
        ),
        why=(
            "Something runs over all steps, or starts from the last step instead of the last one of the "
            "sequence. The result for a sequence then depends on the longest one in its batch. With a "
            "length of 0, a softmax gives all steps the same weight if it masks them by a large negative "
            "number."
        ),
        fix=(
            "Look for code that starts from the end, divides by the number of steps, or takes the "
            "maximum over all steps: it must use the length of the sequence. If padding is meant to count, "
            "correct the docstring."
        ),
        before="""
tag = int(best[entry, -1])               # of the padding
for step in range(steps - 1, 0, -1): ...
""",
        after="""
length = int(lengths[entry])
tag = int(best[entry, length - 1])
for step in range(length - 1, 0, -1): ...
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.padding",
    summary="a sequence gives the same with padding behind it as cut off at its length",
    run=check_padding,
    gradients=False,
    needs=ignores_padding,
    variants=("arguments", "shape"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Padding that changes a result, although the op has lengths of sequences and its docstring says "
        "that padding is ignored, or that a length is the number of valid steps: a path that starts at "
        "the last step, a mean over all steps, a `roll` that wraps around. A sequence with padding, also "
        "with copies of its first or last step there, is compared with the same sequence cut off. For a "
        "sequence of length 0, nothing that stands in its places may count: a note, unless a sample has "
        "such a length or a docstring speaks of it."
    ),
    cannot_see=(
        "Ops without such a docstring, lengths whose dim is ambiguous, and results of other sizes."
    ),
    cost="calls",
)
