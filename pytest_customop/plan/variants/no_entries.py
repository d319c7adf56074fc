"""Variants without entries: no edges, no tokens, no sequences, where integers are listed for each of them.

`shape` leaves the sizes of such tensors alone, as their integers may refer to sizes. Where no integer is
left, none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ...cases.template import adds_up_to_size
from ...declare.inputs import TensorSpec
from ...declare.variant import NUMBER_DIFFERS, Step
from .sample_view import SampleView, TensorArgument
from .shown_sizes import numbers_in


class _Emptied(NamedTuple):
    """How a tensor of integers describes no entries.

    Args:
        dim: the dim that counts entries.
        kept: how many of its integers stay there.
        sizes: the leading sizes of other tensors that become 0.
    """

    dim: int
    kept: int
    sizes: frozenset[int]


def steps(view: SampleView) -> Iterator[Step]:
    """For each number of entries that integers are listed for: none of them."""
    seen: set[frozenset[int]] = set()
    for tensor in view.tensors:
        dim = _entries_dim(tensor)
        if dim is not None and tensor.shape[dim] not in view.free_sizes:
            emptied = _emptied(view, tensor, dim)
            if emptied.sizes not in seen:
                seen.add(emptied.sizes)
                yield from _without_entries(view, tensor, emptied)


def _entries_dim(tensor: TensorArgument) -> int | None:
    """The dim that counts the entries which integers are listed for: 1 for pairs of shape (2, E)."""
    if not tensor.holds_positions or not tensor.listed_whole or tensor.mutated:
        return None
    counting = [dim for dim, size in enumerate(tensor.shape) if size not in tensor.record_sizes]
    return counting[0] if counting and tensor.shape[counting[0]] > 1 else None


def _emptied(view: SampleView, tensor: TensorArgument, dim: int) -> _Emptied:
    """Offsets of no parts are a single 0. Where there are no parts, they have no elements either."""
    listed, size = tensor.listed, tensor.shape[dim]
    others = [other for other in view.tensors if other is not tensor]
    rows = frozenset(other.shape[0] for other in others if other.shape)
    if listed.dim() == 1 and tensor.is_sorted and listed[0] == 0 and int(listed[-1]) in rows:
        return _Emptied(dim, 1, frozenset({size - 1, int(listed[-1])}))
    if listed.dim() == 1 and adds_up_to_size(listed, rows):
        return _Emptied(dim, 0, frozenset({size, int(listed.sum())}))
    return _Emptied(dim, 0, frozenset({size}))


def _without_entries(
    view: SampleView, counting: TensorArgument, emptied: _Emptied
) -> Iterator[Step]:
    """The step; none where a tensor cannot be emptied, or where integers that stay may count entries."""
    changes: dict[str, TensorSpec] = {}
    for tensor in view.tensors:
        if tensor is counting:
            changes[tensor.path] = _first(tensor, emptied.dim, emptied.kept)
        elif tensor.shape and tensor.shape[0] in emptied.sizes:
            if tensor.listed_whole:
                changes[tensor.path] = _first(tensor, 0, 0)
            elif tensor.resizable:
                changes[tensor.path] = tensor.resized((0, *tensor.shape[1:]))
            else:
                return
        elif tensor.holds_positions and (view.may_read_outside or _counts(tensor, emptied.sizes)):
            return
    yield Step(
        f"{counting.path}.none",
        f"{counting.path}: no entries",
        changes,
        4,
        reads_beyond=True,
        beyond=NUMBER_DIFFERS if emptied.sizes & {*numbers_in(view.given)} else None,
    )


def _counts(tensor: TensorArgument, sizes: frozenset[int]) -> bool:
    """Whether integers may be positions among so many entries, or may add up to their number."""
    highest = tensor.highest_position
    return bool(tensor.counted & sizes) or any(
        highest is not None and highest < size for size in sizes
    )


def _first(tensor: TensorArgument, dim: int, count: int) -> TensorSpec:
    """The description of the first so many of its listed integers along a dim."""
    values = tensor.listed.narrow(dim, 0, count).clone()
    return replace(tensor.spec, values=values, shape=tuple(values.shape))
