"""Variants in which an entry of a tensor of positions occurs twice: a position, a row or a column.

If all positions were equal, much would vanish: edges would be loops, and differences 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.argument_names import names_columns, names_edge_ends, names_offsets
from ...cases.documented import adds_up_repeated, may_repeat
from ...core.wording import listed_briefly
from ...declare.variant import Step
from .sample_view import MOST_LISTED, SampleView, TensorArgument
from .shown_sizes import SEVERAL
from .values import counts_sizes, range_of, why_beyond

_RANK = 5


def steps(view: SampleView) -> Iterator[Step]:
    """One integer tensor with an entry that occurs twice; not a permutation, and not offsets.

    Also several of the same size, for example of rows and columns, with an entry that occurs twice in all;
    and a position that occurs in two parts, though in no part twice.
    """
    yield from _repeated_in_all(view)
    yield from _repeated_in_parts(view)
    for tensor in view.tensors:
        if not _may_repeat(view, tensor):
            continue
        beyond = None if may_repeat(view.op, tensor.path) else _why_beyond(view, tensor)
        for name, dims in _entries(tensor.shape):
            values = _repeated(tensor, dims)
            if values is not None:
                spec = replace(
                    tensor.spec, dtype=tensor.dtype, low=None, high=None, fill=None, values=values
                )
                what = f"{tensor.path}: {_described(dims, len(tensor.shape))} twice"
                step = f"{tensor.path}.{name}"
                yield Step(step, what, {tensor.path: spec}, _RANK, beyond=beyond)


def _repeated_in_all(view: SampleView) -> Iterator[Step]:
    listing = [tensor for tensor in view.tensors if _lists_positions(tensor)]
    for size in dict.fromkeys(tensor.shape[0] for tensor in listing):
        group = [tensor for tensor in listing if tensor.shape[0] == size]
        changes = {}
        for tensor in group:
            values = tensor.listed.clone()
            values[1] = values[0]
            changes[tensor.path] = replace(tensor.spec, values=values)
        if len(group) > 1:
            names = listed_briefly([tensor.path for tensor in group])
            beyond = None if adds_up_repeated(view.op) else SEVERAL
            what = f"one entry of {names} twice"
            yield Step(f"{group[0].path}.repeated_in_all", what, changes, _RANK, beyond=beyond)


def _repeated_in_parts(view: SampleView) -> Iterator[Step]:
    """The first position of a part is that of the part before, which may be the column of several rows."""
    for tensor in filter(_lists_positions, view.tensors):
        if counts_sizes(tensor) or (tensor.is_permutation and not names_columns(tensor.path)):
            continue
        for offsets in view.tensors:
            ends = _ends_of_parts(offsets, tensor)
            for begin, middle, end in zip(ends, ends[1:], ends[2:], strict=False):
                values = tensor.listed.clone()
                values[middle:end] = values[middle:end].sort().values
                values[middle : middle + 1] = values[begin : begin + 1]
                if begin < middle < end and len({*values[middle:end].tolist()}) == end - middle:
                    what = f"{tensor.path}: one number in two parts"
                    spec = replace(tensor.spec, values=values)
                    yield Step(f"{tensor.path}.in_two_parts", what, {tensor.path: spec}, _RANK)
                    return


def _lists_positions(tensor: TensorArgument) -> bool:
    return (
        tensor.holds_positions
        and tensor.listed_whole
        and not tensor.mutated
        and len(tensor.shape) == 1
        and tensor.shape[0] > 1
    )


def _why_beyond(view: SampleView, tensor: TensorArgument) -> str | None:
    """Why an entry that occurs twice leaves what the sample shows; None if it does not.

    The numbers of a sorted list, or of sorted parts, may have to differ. Rows and columns need only differ
    as a whole.
    """
    if _ends_edges(view, tensor):
        return None  # a node has any number of edges
    others = [other for other in view.tensors if other is not tensor and other.holds_positions]
    several = not all(_begins_unordered_parts(other, tensor) for other in others)
    return why_beyond(tensor, several) if several or len(tensor.shape) == 1 else None


def _ends_of_parts(offsets: TensorArgument, tensor: TensorArgument) -> list[int]:
    """The numbers of one tensor, if they are the offsets of parts of the other; else none."""
    listed = offsets.spec.values is not None and tensor.spec.values is not None
    if not listed or not (names_offsets(offsets.path) and offsets.is_sorted):
        return []
    ends = offsets.listed.flatten().tolist()
    if tensor.listed.dim() != 1 or not ends or ends[0] != 0 or ends[-1] > tensor.listed.numel():
        return []
    return [int(end) for end in ends]


def _begins_unordered_parts(offsets: TensorArgument, tensor: TensorArgument) -> bool:
    """Whether one tensor holds the offsets of parts of the other, and these parts are not sorted."""
    ends = _ends_of_parts(offsets, tensor)
    if not ends:
        return False
    descents = (tensor.listed.diff() < 0).nonzero().flatten() + 1
    return not {*descents.tolist()} <= {*ends}


def _ends_edges(view: SampleView, tensor: TensorArgument) -> bool:
    """Whether a tensor has one end of each edge, and another one its other end."""
    ends = [
        other
        for other in view.tensors
        if other.holds_positions and names_edge_ends(other.path) and other.shape == tensor.shape
    ]
    return len(tensor.shape) == 1 and len(ends) == 2 and tensor in ends


def _may_repeat(view: SampleView, tensor: TensorArgument) -> bool:
    return (
        tensor.holds_positions
        and not tensor.mutated
        and 0 < math.prod(tensor.shape) <= MOST_LISTED
        and (_ends_edges(view, tensor) or not (tensor.is_permutation or counts_sizes(tensor)))
    )


def _entries(shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(name, dims): the dims along which entries are counted.

    An entry of `[2, edges]` is a column, and an entry of `[boxes, 4]` is a row. In larger matrices, a row
    and a column are repeated, as each number may stand alone.
    """
    if len(shape) == 1:
        yield "repeated", (0,)
    elif len(shape) == 2 and shape[0] == 2:
        yield "repeated", (1,)
        if shape[1] <= 4:
            yield "repeated_rows", (0,)
    elif len(shape) == 2:
        yield "repeated", (0,) if shape[1] <= 4 else (0, 1)


def _described(dims: tuple[int, ...], count: int) -> str:
    if count == 1:
        return "one number"
    return " and ".join(f"one {('row', 'column')[dim]}" for dim in dims)


def _repeated(tensor: TensorArgument, dims: tuple[int, ...]) -> torch.Tensor | None:
    """The numbers with an entry copied over the next one; None if entries occur twice already."""
    numbers = _numbers(tensor)
    if numbers is None:
        return None
    values = numbers.clone()
    for dim in dims:
        if torch.unique(numbers, dim=dim).shape[dim] < numbers.shape[dim]:
            continue
        entries = values.movedim(dim, 0)
        # Negative numbers may stand for what is missing.
        usable = [at for at in range(len(entries)) if bool((entries[at] >= 0).all())]
        if len(usable) > 1:
            entries[usable[1]] = entries[usable[0]].clone()
    return None if torch.equal(values, numbers) else values.to(tensor.dtype)


def _numbers(tensor: TensorArgument) -> torch.Tensor | None:
    """The numbers of the sample; if they are drawn, consecutive ones in their range."""
    if tensor.spec.values is not None:
        return tensor.listed
    span, count = range_of(tensor), math.prod(tensor.shape)
    if span is None or span[0] < 0 or (len(tensor.shape) == 1 and count > span[1] - span[0]):
        return None
    low, high = span
    return low + torch.arange(count).reshape(tensor.shape) % (high - low + 1)
