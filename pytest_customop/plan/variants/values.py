"""Variants with other values: zero, negative, large, not finite; the lowest and highest integers.

Values stay in the range that the author gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from ...cases.argument_names import names_offsets
from ...cases.template import adds_up_to_size, is_constant_mask
from ...cases.tensors import base_name
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument
from .shown_sizes import numbers_in

_LARGE = 1e4
_DRAWN = 9  # torch.testing.make_tensor draws from -9 to 9


def steps(view: SampleView) -> Iterator[Step]:
    """Other values of all floating-point tensors: zero, negative."""
    yield from _together(view, "zeros", "every value 0", 1, fill=0)
    yield from _together(view, "negative", "every value negative", 10, low=-_DRAWN, high=-0.5)


def positions(view: SampleView) -> Iterator[Step]:
    """Integers and booleans, one tensor at a time: all elements the lowest value, or the highest.

    That repeats positions, so permutations are left out: an op may rely on them. Positions also count from
    0. In a constant mask, every second element is inverted; in a mask with several rows, one row becomes
    False and one True. In offsets and lengths, the first part becomes empty, or the last.
    """
    several = sum(tensor.holds_positions for tensor in view.tensors) > 1
    beyond = "one of several integer tensors" * several
    for tensor in view.tensors:
        if tensor.floating:
            continue
        if counts_sizes(tensor):
            derived = any(_may_follow(other) for other in view.tensors if other is not tensor)
            yield from _empty_parts(view, tensor, beyond * derived)
            continue
        yield from _equal_offsets(view, tensor)
        yield from _mixed(tensor)
        yield from _uniform_rows(tensor)
        if not tensor.is_permutation:
            yield from _whole(tensor, why_beyond(tensor, several))
        yield from _counting(tensor, beyond)


def _may_follow(tensor: TensorArgument) -> bool:
    """Whether the integers of a tensor may be derived from the offsets of another one.

    They may be the part that each element belongs to, the lengths of the parts, or their order.
    """
    if not tensor.holds_positions:
        return False
    if tensor.spec.values is None or len(tensor.shape) != 1:
        return True
    return tensor.is_sorted or tensor.is_permutation or counts_sizes(tensor)


def why_beyond(tensor: TensorArgument, several: bool) -> str | None:
    """Why other integers leave what the sample shows; None if they do not."""
    if not tensor.holds_positions:
        return None
    if several:
        return "values of one of several integer tensors"
    return "integers that are sorted in the sample" if tensor.is_sorted else None


def special(view: SampleView) -> Iterator[Step]:
    """Special values in all floating-point tensors: NaN, large, infinite.

    They leave what the sample shows. A correct op may support only finite numbers of usual magnitude, and
    another order of operations, as in compiled code, may turn an overflow into a NaN.
    """
    beyond = "values that no sample has"
    yield from _together(view, "nan", "every value NaN", 11, beyond, fill=float("nan"))
    yield from _together(view, "large", "large values", 12, beyond, low=_LARGE, high=2 * _LARGE)
    yield from _together(view, "inf", "every value infinite", 14, beyond, fill=float("inf"))


def _together(
    view: SampleView,
    name: str,
    description: str,
    rank: int,
    beyond: str | None = None,
    **to: Any,
) -> Iterator[Step]:
    """A change of all floating-point tensors, if the author's range of each allows it."""
    floats = [tensor for tensor in view.tensors if tensor.floating]
    if floats and all(_allows(tensor, to) for tensor in floats):
        changes = {
            tensor.path: replace(tensor.spec, **{"low": None, "high": None, "values": None, **to})
            for tensor in floats
        }
        # A kernel that computes positions from values could look anywhere.
        yield Step(name, description, changes, rank, reads_beyond=name != "zeros", beyond=beyond)


def _allows(tensor: TensorArgument, changes: dict[str, float]) -> bool:
    """Whether the range that the author gave contains the values."""
    limits = tensor.value_limits
    if limits is None:
        return False
    low, high = limits
    if (low, high) == (-math.inf, math.inf):
        return True
    if "fill" in changes:
        return changes["fill"] == 0 and low <= 0 < high
    return low <= changes["low"] and high >= changes["high"]


def _whole(tensor: TensorArgument, beyond: str | None) -> Iterator[Step]:
    """One integer or boolean tensor filled with its lowest value, or its highest."""
    size = tensor.spec.shape
    seen = range_of(tensor)
    if seen is None or 0 in size:
        return
    low, high = seen
    rank = 3 if tensor.dtype == torch.bool else 8
    for name, description, fill in (
        ("lowest", "every value the lowest seen", low),
        ("highest", "every value the highest seen", high),
    ):
        spec = replace(tensor.spec, dtype=tensor.dtype, values=None, low=None, high=None, fill=fill)
        what = f"{tensor.path}: {description}"
        yield Step(f"{tensor.path}.{name}", what, {tensor.path: spec}, rank, beyond=beyond)


def _mixed(tensor: TensorArgument) -> Iterator[Step]:
    """A constant mask with every second element inverted."""
    if tensor.spec.values is None or not is_constant_mask(tensor.listed):
        return
    values = tensor.listed.flatten().clone()
    values[1::2] = ~values[1::2]
    spec = replace(tensor.spec, values=values.reshape(tensor.shape))
    what = f"{tensor.path}: every second element {not bool(values[0])}"
    yield Step(f"{tensor.path}.mixed", what, {tensor.path: spec}, 1)


def _uniform_rows(tensor: TensorArgument) -> Iterator[Step]:
    """A mask whose first row is False everywhere, and its last row True: one of them masks everything."""
    shape = tensor.shape
    is_mask = tensor.dtype == torch.bool and not tensor.mutated
    if not is_mask or len(shape) < 2 or 0 in shape or math.prod(shape[:-1]) < 2:
        return
    if tensor.spec.values is None:
        values = torch.arange(math.prod(shape)).reshape(shape) % 2 == 0
    else:
        values = tensor.listed.clone()
    rows = values.reshape(-1, shape[-1])
    rows[0], rows[-1] = False, True
    spec = replace(
        tensor.spec, dtype=torch.bool, values=rows.reshape(shape), low=None, high=None, fill=None
    )
    what = f"{tensor.path}: the first row False, the last one True"
    yield Step(f"{tensor.path}.uniform_rows", what, {tensor.path: spec}, 2)


def _counting(tensor: TensorArgument, beyond: str) -> Iterator[Step]:
    """The elements 0, 1, 2, ..., if they do not exceed the highest: many ops have a shortcut for these.

    A permutation is put in order from its lowest element on.
    """
    seen, count = range_of(tensor), math.prod(tensor.shape)
    if seen is None or tensor.dtype == torch.bool or not tensor.holds_positions:
        return
    low, high = seen
    start = low if tensor.is_permutation else 0
    if low >= 0 and 2 <= count <= high - start + 1:
        values = torch.arange(start, start + count).reshape(tensor.shape)
        spec = replace(
            tensor.spec, dtype=tensor.dtype, values=values, low=None, high=None, fill=None
        )
        unseen = "integers below all of the sample" if start < low else ""
        what = f"{tensor.path}: {start}, {start + 1}, ..."
        step = f"{tensor.path}.counting"
        yield Step(step, what, {tensor.path: spec}, 8, beyond=beyond or unseen or None)


def _empty_parts(view: SampleView, tensor: TensorArgument, beyond: str) -> Iterator[Step]:
    """Offsets or lengths with an empty first part, or an empty last part.

    The total length stays, and so does the longest part if the others have room. A longer part leaves what
    the sample shows if a size or a number in the sample may limit the length of a part.

    Args:
        beyond: why any of them leaves what the sample shows; empty if they do not.
    """
    if tensor.spec.values is None or len(tensor.shape) != 1 or not tensor.holds_positions:
        return
    listed = tensor.listed
    lengths = listed.diff() if tensor.is_sorted else listed.clone()
    if len(lengths) < 2:
        return
    arguments = {argument.name: view.value_of(argument) for argument in view.op.arguments}
    limits = {*tensor.others, *numbers_in(arguments, least=1)}
    for name, empty in (("first", 0), ("last", len(lengths) - 1)):
        if lengths[empty]:
            parts = _emptied(lengths, empty)
            values = (
                torch.cat([listed[:1], listed[0] + parts.cumsum(0)]) if tensor.is_sorted else parts
            )
            spec = replace(tensor.spec, values=values.to(listed.dtype))
            what = f"{tensor.path}: the {name} part empty"
            step = f"{tensor.path}.empty_{name}"
            limited = any(lengths.max() <= limit < parts.max() for limit in limits)
            why = beyond or "a part longer than all of the sample" * limited
            yield Step(step, what, {tensor.path: spec}, 2, True, beyond=why or None)


def _equal_offsets(view: SampleView, tensor: TensorArgument) -> Iterator[Step]:
    """One of the offsets equal to the one before, where they begin with 0 and do not end at a size.

    They may leave out the end of the last part, as those of `torch.nn.EmbeddingBag` do.
    """
    name = base_name(tensor.path)
    if not (names_offsets(name) and tensor.holds_positions and tensor.is_sorted):
        return
    values, at = tensor.listed.clone(), len(tensor.listed) // 2
    if values.dim() != 1 or len(values) < 3:
        return
    fit = int(values[0]) == 0 and int(values[-1]) <= max(tensor.others, default=0)
    if fit and values[at] != values[at - 1]:
        values[at] = values[at - 1]
        beyond = "a part that no docstring allows to be empty" * view.may_read_outside
        spec = replace(tensor.spec, values=values)
        what = f"{tensor.path}: two are equal, so a part is empty"
        yield Step(
            f"{tensor.path}.empty_part", what, {tensor.path: spec}, 2, True, beyond=beyond or None
        )


def _emptied(lengths: torch.Tensor, empty: int) -> torch.Tensor:
    """Lengths with one set to 0; the others get its elements, up to the longest while there is room."""
    parts, left, longest = lengths.clone(), int(lengths[empty]), int(lengths.max())
    parts[empty] = 0
    for at in range(len(parts)):
        if at != empty:
            more = min(left, longest - int(parts[at]))
            parts[at] += more
            left -= more
    parts[1 if empty == 0 else empty - 1] += left
    return parts


def counts_sizes(tensor: TensorArgument) -> bool:
    """Whether the numbers look like offsets into another tensor, or lengths that add up to its size.

    A single number without dims has no parts.
    """
    if not tensor.counted or not tensor.shape:
        return False
    ends_there = tensor.is_sorted and int(tensor.listed.max()) in tensor.others
    return ends_there or adds_up_to_size(tensor.listed, tensor.others)


def range_of(tensor: TensorArgument) -> tuple[int, int] | None:
    """The lowest and the highest value that the tensor may have in the sample."""
    spec = tensor.spec
    if spec.values is not None:
        listed = tensor.listed
        return (int(listed.min()), int(listed.max())) if listed.numel() else None
    if spec.fill is not None:
        return None
    if tensor.dtype == torch.bool:
        return 0, 1
    low = spec.low if spec.low is not None else 0 if tensor.dtype == torch.uint8 else -_DRAWN
    high = spec.high if spec.high is not None else _DRAWN + 1
    return int(low), int(high) - 1
