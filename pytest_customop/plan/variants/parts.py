"""Variants with many parts of a jagged tensor: offsets or lengths that repeat, with what they count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod

import torch

from ...declare.inputs import TensorSpec
from ...declare.variant import MANY_PARTS, Step
from .large import MOST, replaced
from .sample_view import SampleView, TensorArgument
from .shown_sizes import with_numbers
from .values import counts_sizes

_PARTS = 1100  # more than a block of 1024 and a part of the next one
_NATIVE_PARTS = 2**14 + 1  # enough work for threads to overlap in a native kernel


def steps(view: SampleView) -> Iterator[Step]:
    """The offsets or lengths of the sample again and again, and the rows that they count.

    A kernel may compute blocks of parts, or give each thread some of them.
    """
    counting = [tensor for tensor in view.tensors if counts_sizes(tensor) and tensor.shape[0] > 1]
    if not counting or any(len(tensor.shape) > 1 for tensor in counting):
        return
    parts = {len(tensor.listed) - _leading(tensor) for tensor in counting}
    times = ceil((_NATIVE_PARTS if view.may_read_outside else _PARTS) / min(parts))
    rows = {total: total * times for total in map(_total, counting)}
    per_part = {count: count * times for count in parts} | rows
    others = [tensor for tensor in view.tensors if tensor not in counting]
    shapes = {  # a tensor may have a row for each part
        tensor.path: replaced(tensor.shape[:1], per_part) + replaced(tensor.shape[1:], rows)
        for tensor in others
    }
    larger = [tensor for tensor in others if shapes[tensor.path] != tensor.shape]
    elements = sum(map(prod, shapes.values()))
    if len(parts) > 1 or elements > MOST or not all(tensor.resizable for tensor in larger):
        return
    changes = {tensor.path: _repeated(tensor, times) for tensor in counting}
    for tensor in larger:
        spec = tensor.redrawn(shapes[tensor.path])
        if spec is None:  # a size of it counts numbers that belong together
            return
        changes[tensor.path] = spec
    sizes = {
        (tensor.path, dim): size
        for tensor in larger
        for dim, size in enumerate(shapes[tensor.path])
    }
    name = f"{counting[0].path}.{MANY_PARTS}"
    what = f"{counting[0].path}: the parts of the sample repeated {times} times, with their rows"
    yield from with_numbers(view, Step(name, what, changes, 5, reads_beyond=True), sizes)


def _are_lengths(tensor: TensorArgument) -> bool:
    return not (tensor.is_sorted and int(tensor.listed[-1]) in tensor.others)


def _leading(tensor: TensorArgument) -> int:
    """How many numbers are in front of the ends of the parts: the 0 of offsets."""
    return int(not _are_lengths(tensor) and int(tensor.listed[0]) == 0)


def _total(tensor: TensorArgument) -> int:
    """The number of rows that are counted."""
    return int(tensor.listed.sum() if _are_lengths(tensor) else tensor.listed[-1])


def _repeated(tensor: TensorArgument, times: int) -> TensorSpec:
    """The parts again and again."""
    front = tensor.listed[: _leading(tensor)]
    ends = tensor.listed[_leading(tensor) :]
    shift = 0 if _are_lengths(tensor) else _total(tensor)
    values = torch.cat([front, (ends + shift * torch.arange(times)[:, None]).flatten()])
    return replace(tensor.spec, shape=tuple(values.shape), values=values.to(tensor.dtype))
