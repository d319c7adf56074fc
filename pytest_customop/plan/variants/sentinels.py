"""Variants with special elements in an integer tensor: `ignore_index` or -1 for what is left out.

A marker that is a position also becomes 0, together with the elements that are equal to it.
Also lengths of which some are 0, and lengths that end with a whole block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import torch

from ...cases.argument_names import names_lengths, names_positions
from ...cases.documented import marks_missing, pads_with_negative
from ...cases.documented_batches import allows_empty_sequences
from ...cases.template import adds_up_to_size
from ...cases.tensors import base_name
from ...core.wording import listed_briefly
from ...declare.variant import NEGATIVE, Step
from .sample_view import MOST_LISTED, SampleView, TensorArgument
from .shown_sizes import numbers_in
from .values import counts_sizes, range_of

_IGNORED = re.compile(r"(^|_)ignored?($|_)")
_SENTINEL = re.compile(
    r"(^|_)(ignored?|pad|padding|padded|masked?|missing|invalid|skip|skipped|blank|sentinel|eos|bos|unk)"
    r"($|_)"
)
# Lookups leave out the gradient of padding on purpose, and other markers may not be valid elements.
_MARKED = "elements equal to an argument that marks some of them"
_EMPTY = "a length of 0"
_MOST_SIZES = 2  # of blocks


def steps(view: SampleView) -> Iterator[Step]:
    """Some elements of an integer tensor -1, 0, or equal to a marker; lengths that are multiples."""
    yield from _equal_to_arguments(view)
    yield from _marked_by_0(view)
    yield from _padded(view)
    yield from _empty(view)
    yield from _whole_blocks(view)


def _padded(view: SampleView) -> Iterator[Step]:
    """Some positions -1, which means padding in many ops; an op need not support it."""
    for tensor in view.tensors:
        if not (_holds_positions(tensor, view) and _may_hold(tensor, view)):
            continue
        span = range_of(tensor)
        if span is not None and span[0] >= 0 and tensor.dtype.is_signed:
            said = pads_with_negative(view.op) or marks_missing(view.op, base_name(tensor.path))
            beyond = None if said else NEGATIVE
            yield from _marked(tensor, f"{tensor.path}.has.-1", -1, "-1", beyond)


def _holds_positions(tensor: TensorArgument, view: SampleView) -> bool:
    """Whether integers are positions by their name, or native code may use them as positions."""
    name = base_name(tensor.path)
    if names_positions(name):
        return True
    highest = tensor.highest_position
    if not view.may_read_outside or highest is None or names_lengths(name) or tensor.is_sorted:
        return False
    return any(highest < size for size in tensor.others)


def _empty(view: SampleView) -> Iterator[Step]:
    """Some lengths 0, for empty sequences; an op need not support them."""
    for tensor in _lengths(view):
        span = range_of(tensor)
        if span is not None and span[0] > 0:
            beyond = None if allows_empty_sequences(view.op, base_name(tensor.path)) else _EMPTY
            yield from _marked(tensor, f"{tensor.path}.has.0", 0, "0", beyond)


def _lengths(view: SampleView) -> Iterator[TensorArgument]:
    """The tensors of lengths that do not have to add up to a size."""
    for tensor in view.tensors:
        whole = tensor.holds_positions and not tensor.mutated
        if not (whole and names_lengths(base_name(tensor.path))):
            continue
        if math.prod(tensor.shape) <= MOST_LISTED and (
            tensor.spec.values is None or not adds_up_to_size(tensor.listed, tensor.others)
        ):
            yield tensor


def _whole_blocks(view: SampleView) -> Iterator[Step]:
    """Listed lengths made multiples of a size of another tensor, or of a number: no block is left over."""
    for tensor in _lengths(view):
        if tensor.spec.values is None or not tensor.listed.numel():
            continue
        inner = [size for other in view.tensors for size in other.shape[1:]]
        listed = tensor.listed
        sizes = [
            size
            for size in dict.fromkeys((*numbers_in(view.given), *inner))
            if 1 < size < int(listed.max()) and bool(((listed > size) & (listed % size != 0)).any())
        ]
        for size in sizes[:_MOST_SIZES]:
            values = torch.where(listed > size, listed - listed % size, listed)
            spec = replace(tensor.spec, values=values)
            what = f"{tensor.path}: multiples of {size}"
            yield Step(f"{tensor.path}.multiples_of_{size}", what, {tensor.path: spec}, 3, True)


def _equal_to_arguments(view: SampleView) -> Iterator[Step]:
    marks = {
        argument.name: view.value_of(argument)
        for argument in view.op.arguments
        if _SENTINEL.search(argument.name)
    }
    for name, value in marks.items():
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        for tensor in view.tensors:
            if _may_hold(tensor, view) and _fits(value, tensor.dtype):
                beyond = None if _IGNORED.search(name) else _MARKED
                marked = f"{value}, the value of {name}"
                yield from _marked(tensor, f"{tensor.path}.has.{name}", value, marked, beyond)


def _marked_by_0(view: SampleView) -> Iterator[Step]:
    """A marker and the elements equal to it become 0, which `if marker:` takes for no marker."""
    for argument in view.op.arguments:
        marker = view.given.get(argument.name)
        if type(marker) is not int or marker < 1 or not _marks_positions(argument.name):
            continue
        changes = {
            tensor.path: replace(tensor.spec, values=_swapped(tensor.listed, marker))
            for tensor in view.tensors
            if _may_hold(tensor, view) and tensor.spec.values is not None
            if _fits(marker, tensor.dtype) and bool((tensor.listed == marker).any())
        }
        if changes:
            names = listed_briefly([*changes])
            what = f"{argument.name}=0, and the elements {marker} and 0 of {names} swapped"
            step = f"{argument.name}.0_with_elements"
            yield Step(step, what, {argument.name: 0, **changes}, 3, True)


def _marks_positions(name: str) -> bool:
    return names_positions(name) and _SENTINEL.search(name) is not None


def _swapped(values: torch.Tensor, marker: int) -> torch.Tensor:
    return torch.where(values == marker, 0, torch.where(values == 0, marker, values))


def _marked(
    tensor: TensorArgument, step: str, value: int, marked: str, beyond: str | None
) -> Iterator[Step]:
    values = _with(tensor, value)
    if values is not None:
        spec = replace(
            tensor.spec, dtype=tensor.dtype, low=None, high=None, fill=None, values=values
        )
        description = f"some elements of {tensor.path} are {marked}"
        yield Step(step, description, {tensor.path: spec}, 3, True, beyond=beyond)


def _may_hold(tensor: TensorArgument, view: SampleView) -> bool:
    whole = not tensor.floating and tensor.dtype != torch.bool and not tensor.mutated
    size = math.prod(tensor.shape)
    return (
        whole and 0 < size <= MOST_LISTED and not tensor.is_permutation and not counts_sizes(tensor)
    )


def _fits(value: int, dtype: torch.dtype) -> bool:
    limits = torch.iinfo(dtype)
    return limits.min <= value <= limits.max


def _with(tensor: TensorArgument, value: int) -> torch.Tensor | None:
    """The elements with every second one replaced, or the only one."""
    size = math.prod(tensor.shape)
    if tensor.spec.values is not None:
        flat = tensor.listed.flatten().clone()
    else:
        span = range_of(tensor)
        if span is None:
            return None
        low, high = span
        flat = low + torch.arange(size) % (high - low + 1)
    flat[min(1, size - 1) :: 2] = value
    return flat.to(tensor.dtype).reshape(tensor.shape)
