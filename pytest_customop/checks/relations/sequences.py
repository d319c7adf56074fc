"""The sequences of a batch whose lengths an argument holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from ...cases.argument_names import names_lengths
from ...cases.case import Case
from ...cases.documented import lines_about
from ...cases.documented_batches import sentence_of_padding
from ...cases.tensors import base_name, is_plain
from ...declare.ops import Op

_ENTRIES = 3  # of the batch that are looked at
_LETTERS = 2  # of a name in which each may stand for a tensor
_OF_LENGTHS = re.compile(r"_?(lengths?|lens?|seqlens?|counts?|num_per)$")


class Cut(NamedTuple):
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
        """An argument for this sequence alone.

        Args:
            padding: what is behind its end: "" for what the sample has there, "first" or "last" for copies
                of that step; None cuts it off.
        """
        if path in self.batch:
            tensor = tensor.detach().narrow(self.batch[path], self.entry, 1)
        if path == self.lengths:
            return torch.full_like(tensor, self.length)
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        for name, dim in self.dims:
            if name == path and padding is None:
                tensor = tensor.narrow(dim, 0, self.length).contiguous()
            elif name == path and padding:
                step = tensor.narrow(dim, self.step(padding), 1)
                self.padding_of(tensor, dim).copy_(step.clone())
        return tensor

    def padding_of(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """The part of a tensor behind the sequence."""
        return tensor.narrow(dim, self.length, self.steps - self.length)

    def step(self, padding: str) -> int:
        """The step that stands everywhere in the padding; for an empty sequence, one of its padding."""
        return {"first": 0, "last": (self.length or self.steps) - 1}[padding]


def ignores_padding(op: Op) -> bool:
    """Whether an op has lengths, and a docstring says that padding is ignored."""
    named = any(names_lengths(argument.name) for argument in op.arguments)
    return named and bool(sentence_of_padding(op))


def cuts_of(case: Case) -> Iterator[Cut]:
    """The sequences of the case; one without padding is taken for half as long.

    There are none if the call leaves out another argument of lengths: the given ones are ambiguous then.
    """
    for lengths, whole in _batches(case):
        for entry, length in enumerate(lengths[:_ENTRIES]):
            shorter = length if 0 < length < whole.steps else whole.steps // 2
            yield whole._replace(entry=entry, length=shorter)


def empty_cuts_of(case: Case) -> Iterator[Cut]:
    """The first sequence of the case with length 0, for each argument of lengths; all of it is padding."""
    for _, whole in _batches(case):
        yield whole._replace(length=0)


def has_empty(case: Case, lengths: str) -> bool:
    """Whether a sequence of the sample has length 0."""
    return 0 in dict(case.inputs().tensors())[lengths]


def _batches(case: Case) -> Iterator[tuple[list[int], Cut]]:
    """The numbers of each argument of lengths, and its first sequence in full."""
    said = sentence_of_padding(case.op)
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
            for name in _measured(path, [*batch])
            for dim, size in enumerate(tensors[name].shape)
            if dim != batch[name] and size >= max(longest, 2)
        ]
        sizes = {tensors[name].shape[dim] for name, dim in dims}
        measured = {name for name, _ in dims}
        if len(sizes) != 1 or len(measured) < len(dims):  # ambiguous
            continue
        about = {name for name in tensors if said in lines_about(case.op, base_name(name))}
        if about - {path} - measured:
            continue  # the padding is that of another argument
        (steps,) = sizes
        yield lengths.tolist(), Cut(path, 0, steps, steps, tuple(dims), batch)


def _measured(lengths: str, names: Sequence[str]) -> Sequence[str]:
    """The tensors whose lengths an argument holds: by its name, as in `kv_lengths`, or else all.

    Each letter of a short name may stand for one: `k` and `v`, or `key` and `value`.
    """
    about = _OF_LENGTHS.sub("", lengths)
    letters = about if len(about) <= _LETTERS else ""
    others = [name for name in names if name != lengths]
    named = [name for name in others if about and (name.startswith(about) or name[0] in letters)]
    return named or names


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
