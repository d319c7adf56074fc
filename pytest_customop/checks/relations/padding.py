"""`relations.padding`: a sequence gives the same with padding behind it as cut off at its length."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten
from typing import Any, NamedTuple

import torch

from ...cases.argument_names import names_lengths
from ...cases.case import Case
from ...cases.documented_batches import sentence_of_padding
from ...cases.tensors import is_plain
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
)
from ..values.memory.limited_copy import answer_if_taken
from .compare import Disagreement, disagreement, is_so_in_double
from .scripts import call_lines, position

_ENTRIES = 3  # of the batch that are looked at
_QUOTED = 160  # characters of a docstring


class _Cut(NamedTuple):
    """One sequence of a batch, and where it ends.

    Args:
        lengths: the argument with the lengths.
        entry: of the batch.
        length: of the sequence without padding.
        steps: the size of the dims that are cut off.
        dims: (path, dim) of these.
        batch: the paths of the tensors that have an entry for each sequence.
    """

    lengths: str
    entry: int
    length: int
    steps: int
    dims: tuple[tuple[str, int], ...]
    batch: tuple[str, ...]

    def taken(self, path: str, tensor: torch.Tensor, *, whole: bool) -> torch.Tensor:
        """An argument for this sequence alone; with its padding if `whole`."""
        if path in self.batch:
            tensor = tensor.detach()[self.entry : self.entry + 1]
        if path == self.lengths:
            return torch.full_like(tensor, self.length)
        for name, dim in () if whole else self.dims:
            if name == path:
                tensor = tensor.narrow(dim, 0, self.length)
        return tensor.clone(memory_format=torch.contiguous_format)


class _Broken(NamedTuple):
    """A sequence that gives something else with its padding than without, and what."""

    cut: _Cut
    wrong: Disagreement


def check_padding(case: Case) -> None:
    """Call the op with single sequences, with the padding behind them and cut off at their lengths."""
    skip_if_no_results(case)
    skip_if_random(case)
    if not any(_cuts(case)):
        reason = "no argument holds lengths of sequences along one dim"
        raise skip("nothing-to-check", reason, unjudged=False)
    reason = "the op takes no single sequence, or its results have other sizes"
    broken = answer_if_taken(case, _answer, reason)
    if broken is not None:
        cut, wrong = broken
        raise fail(
            "padding-has-influence",
            f"{case.op.name}: with a length of {cut.length} and {cut.steps} steps, entry {cut.entry} gives "
            f"something else than cut off after {cut.length} steps: {wrong}",
            f'A docstring says: "{shorten(sentence_of_padding(case.op), _QUOTED)}"',
            repro=_script(case, broken),
            picture=wrong.picture,
        )


def _cuts(case: Case) -> Iterator[_Cut]:
    """The sequences of the case; one without padding is taken for half as long.

    There are none if the call leaves out another argument of lengths: the given ones are ambiguous then.
    """
    tensors = {path: tensor for path, tensor in case.inputs().tensors() if is_plain(tensor)}
    if any(names_lengths(name) and name not in tensors for name in _tensor_arguments(case.op)):
        return
    for path, lengths in tensors.items():
        if not names_lengths(path) or lengths.dim() != 1 or lengths.dtype.is_floating_point:
            continue
        batch = [name for name, tensor in tensors.items() if tensor.shape[:1] == lengths.shape[:1]]
        longest = int(lengths.max()) if lengths.numel() else 0
        dims = [
            (name, dim)
            for name in batch
            for dim, size in enumerate(tensors[name].shape)
            if dim > 0 and size >= max(longest, 2)
        ]
        sizes = {tensors[name].shape[dim] for name, dim in dims}
        if len(sizes) != 1:  # the dim of the lengths is ambiguous
            continue
        (steps,) = sizes
        for entry, length in enumerate(lengths.tolist()[:_ENTRIES]):
            shorter = length if 0 < length < steps else steps // 2
            yield _Cut(path, entry, shorter, steps, tuple(dims), tuple(batch))


def _tensor_arguments(op: Op) -> list[str]:
    tensors = ("Tensor", "Optional[Tensor]")
    return [argument.name for argument in op.arguments if str(argument.type) in tensors]


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op takes a sequence alone, and the first one whose padding counts."""
    calls = Caller(case)
    is_taken = False
    for cut in _cuts(case):
        pairs = _pairs(calls, cut)
        is_taken |= bool(pairs)
        wrong = _wrong(case, pairs)
        if wrong is not None and _is_wrong_in_double(case, cut):
            return True, _Broken(cut, wrong)
    return is_taken, None


def _pairs(calls: Caller, cut: _Cut) -> list[tuple[Leaves, Leaves]]:
    """Each result of a sequence that can be compared, with its padding and without."""
    padded, alone = (_results(calls, cut, whole=whole) for whole in (True, False))
    if padded is None or alone is None or len(padded) != len(alone):
        return []
    pairs = []
    for (name, left), (_, right) in zip(padded, alone, strict=True):
        kept = _without_padding(cut, left, right)
        if kept is not None:
            pairs.append(([(name, kept)], [(name, right)]))
    return pairs


def _results(calls: Caller, cut: _Cut, *, whole: bool) -> Leaves | None:
    """Copies of what the op gives for a sequence; None where it raises."""

    def taken(path: str, tensor: torch.Tensor) -> torch.Tensor:
        return cut.taken(path, tensor, whole=whole)

    return copied_results(calls(calls.case.inputs().map_distinct(taken)))


def _without_padding(cut: _Cut, padded: Any, alone: Any) -> Any:
    """A result without its entries for the padding; None if its sizes differ from `alone` even then."""
    if not isinstance(padded, torch.Tensor) or not isinstance(alone, torch.Tensor):
        return padded
    if padded.dim() != alone.dim():
        return None
    for dim, sizes in enumerate(zip(padded.shape, alone.shape, strict=True)):
        if sizes == (cut.steps, cut.length):
            padded = padded.narrow(dim, 0, cut.length)
    return padded if padded.shape == alone.shape else None


def _wrong(case: Case, pairs: list[tuple[Leaves, Leaves]]) -> Disagreement | None:
    wrongs = (disagreement(case, padded, alone) for padded, alone in pairs)
    return next((wrong for wrong in wrongs if wrong is not None), None)


def _is_wrong_in_double(case: Case, cut: _Cut) -> bool:
    """Whether results differ in double precision too; True if the op does not support it."""

    def ask(wide: Case) -> bool:
        pairs = _pairs(Caller(wide), cut)
        return not pairs or _wrong(wide, pairs) is not None

    return is_so_in_double(case, ask)


def _script(case: Case, broken: _Broken) -> str:
    cut, wrong = broken
    at = position(case, wrong.name)
    lines = []
    for path in cut.batch:
        place = expression(case, path)
        lines.append(f"    {place} = {place}.detach()[{cut.entry} : {cut.entry + 1}]\n")
    cuts = [
        f"        {expression(case, path)} = {expression(case, path)}.narrow({dim}, 0, {cut.length})\n"
        for path, dim in cut.dims
    ]
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


def _says_so(op: Op) -> bool:
    """Whether an op has lengths, and a docstring says that padding is ignored."""
    named = any(names_lengths(argument.name) for argument in op.arguments)
    return named and bool(sentence_of_padding(op))


FINDINGS = {
    "padding-has-influence": Explanation(
        meaning=(
            "A docstring says that anything behind the end of a sequence is ignored. But with padding "
            "there, a sequence gives another result than cut off at its length."
        ),
        why=(
            "Something runs over all steps, or starts from the last step instead of the last one of the "
            "sequence. The result for a sequence then depends on the longest one in its batch."
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
    needs=_says_so,
    variants=("arguments", "shape"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Padding that changes a result, although the op has lengths of sequences and its docstring says "
        "that padding is ignored, or that a length is the number of valid steps: a path that starts at "
        "the last step, a mean over all steps. A sequence with padding is compared with the same "
        "sequence cut off."
    ),
    cannot_see=(
        "Ops without such a docstring, lengths whose dim is ambiguous, batches that are not the first dim, "
        "and results of other sizes."
    ),
    cost="calls",
)
