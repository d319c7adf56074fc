"""`relations.padding`: a sequence gives the same with padding behind it as cut off at its length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
# What stands behind the end of a sequence: what the sample has there, or copies of one of its steps. Copies
# of the first show code that looks back from it to the last step of all.
_PADDINGS = ("", "first", "last")


class _Cut(NamedTuple):
    """One sequence of a batch, and where it ends.

    Args:
        lengths: the argument with the lengths.
        entry: of the batch.
        length: of the sequence without padding.
        steps: the size of the dims that are cut off.
        dims: (path, dim) of these.
        batch: path -> the dim in which a tensor has an entry for each sequence.
    """

    lengths: str
    entry: int
    length: int
    steps: int
    dims: tuple[tuple[str, int], ...]
    batch: Mapping[str, int]

    def taken(self, path: str, tensor: torch.Tensor, padding: str | None) -> torch.Tensor:
        """An argument for this sequence alone, with its padding as `_PADDINGS` has it; None cuts it off."""
        if path in self.batch:
            tensor = tensor.detach().narrow(self.batch[path], self.entry, 1)
        if path == self.lengths:
            return torch.full_like(tensor, self.length)
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        for name, dim in self.dims:
            if name == path and padding is None:
                tensor = tensor.narrow(dim, 0, self.length).contiguous()
            elif name == path and padding:
                self.padding_of(tensor, dim).copy_(tensor.narrow(dim, self.step(padding), 1))
        return tensor

    def padding_of(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """The part of a tensor behind the sequence."""
        return tensor.narrow(dim, self.length, self.steps - self.length)

    def step(self, padding: str) -> int:
        """The step that stands everywhere in the padding."""
        return {"first": 0, "last": self.length - 1}[padding]


class _Broken(NamedTuple):
    """A sequence that gives something else with padding than without, and what.

    Args:
        padding: as in `_PADDINGS`.
    """

    cut: _Cut
    padding: str
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
        cut, padding, wrong = broken
        equal = f", of which all behind its end are equal to its {padding} one," if padding else ","
        raise fail(
            "padding-has-influence",
            f"{case.op.name}: with a length of {cut.length} and {cut.steps} steps{equal} entry {cut.entry} "
            f"gives something else than cut off after {cut.length} steps: {wrong}",
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
        batch = _batch_dims(tensors, len(lengths))
        longest = int(lengths.max()) if lengths.numel() else 0
        dims = [
            (name, dim)
            for name, entries in batch.items()
            for dim, size in enumerate(tensors[name].shape)
            if dim != entries and size >= max(longest, 2)
        ]
        sizes = {tensors[name].shape[dim] for name, dim in dims}
        if len(sizes) != 1 or len({name for name, _ in dims}) < len(dims):  # ambiguous
            continue
        (steps,) = sizes
        for entry, length in enumerate(lengths.tolist()[:_ENTRIES]):
            shorter = length if 0 < length < steps else steps // 2
            yield _Cut(path, entry, shorter, steps, tuple(dims), batch)


def _batch_dims(tensors: Mapping[str, torch.Tensor], count: int) -> dict[str, int]:
    """Path -> the dim of the batch: the first one, or else the only one of its size."""
    dims = {}
    for name, tensor in tensors.items():
        fitting = [dim for dim, size in enumerate(tensor.shape) if size == count]
        if fitting and (fitting[0] == 0 or len(fitting) == 1):
            dims[name] = fitting[0]
    return dims


def _tensor_arguments(op: Op) -> list[str]:
    tensors = ("Tensor", "Optional[Tensor]")
    return [argument.name for argument in op.arguments if str(argument.type) in tensors]


def _answer(case: Case) -> tuple[bool, _Broken | None]:
    """Whether the op takes a sequence alone, and the first one whose padding counts."""
    calls = Caller(case)
    is_taken = False
    for cut in _cuts(case):
        for padding in _PADDINGS:
            pairs = _pairs(calls, cut, padding)
            is_taken |= bool(pairs)
            wrong = _wrong(case, pairs)
            if wrong is not None and _is_wrong_in_double(case, cut, padding):
                return True, _Broken(cut, padding, wrong)
    return is_taken, None


def _pairs(calls: Caller, cut: _Cut, padding: str) -> list[tuple[Leaves, Leaves]]:
    """Each result of a sequence that can be compared, with padding and without."""
    padded, alone = (_results(calls, cut, what) for what in (padding, None))
    if padded is None or alone is None or len(padded) != len(alone):
        return []
    pairs = []
    for (name, left), (_, right) in zip(padded, alone, strict=True):
        kept = _without_padding(cut, left, right)
        if kept is not None:
            pairs.append(([(name, kept)], [(name, right)]))
    return pairs


def _results(calls: Caller, cut: _Cut, padding: str | None) -> Leaves | None:
    """Copies of what the op gives for a sequence; None where it raises."""

    def taken(path: str, tensor: torch.Tensor) -> torch.Tensor:
        return cut.taken(path, tensor, padding)

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


def _is_wrong_in_double(case: Case, cut: _Cut, padding: str) -> bool:
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
            behind = f"{place}.narrow({dim}, {cut.length}, {cut.steps - cut.length})"
            lines.append(f"    {behind}.copy_({place}.narrow({dim}, {cut.step(padding)}, 1))\n")
        cuts.append(f"        {place} = {place}.narrow({dim}, 0, {cut.length})\n")
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
        "the last step, a mean over all steps, a `roll` that wraps around. A sequence with padding, also "
        "with copies of its first or last step there, is compared with the same sequence cut off."
    ),
    cannot_see=(
        "Ops without such a docstring, lengths whose dim is ambiguous, and results of other sizes."
    ),
    cost="calls",
)
