"""Find out whether, and why, a change of sizes leaves what the sample shows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from ...cases.argument_names import names_dims
from ...cases.documented_empties import allows_empty
from ...cases.resize import UNTIED
from ...cases.tensors import base_name
from ...declare.variant import NUMBER_DIFFERS, Step
from .sample_view import SampleView, TensorArgument

# (argument path, dim) -> the new size
Sizes = Mapping[tuple[str, int], int]

# Why repeated positions leave what the sample shows.
SEVERAL = "repeated positions where there are several integer tensors"
# How many numbers may be packed into one element: numbers of 8, 4, 2 or 1 bits in a byte.
_PACKED = (1, 2, 4, 8)


def with_numbers(view: SampleView, step: Step, sizes: Sizes) -> Iterator[Step]:
    """A step that changes sizes, then the same with the numbers that are equal to these sizes.

    Args:
        step: without `beyond`, which is filled in.
        sizes: the new sizes.
    """
    became = _became(view, sizes)
    changes = {size: [*new] for size, new in became.items() if new != {size}}
    numbers = {}
    if all(len(new) == 1 and new[0] for new in changes.values()):
        numbers = _changed_numbers(view, {size: new for size, (new,) in changes.items()})
    yield step._replace(beyond=beyond_sample(view, sizes))
    if numbers:
        text = ", ".join(f"{name}={value}" for name, value in numbers.items())
        yield step._replace(
            name=f"{step.name}_with_numbers",
            description=f"{step.description}, with {text}",
            changes={**step.changes, **numbers},
            reads_beyond=True,
            beyond=beyond_sample(view, sizes, numbers),
        )


def beyond_sample(
    view: SampleView, sizes: Sizes, numbers: Mapping[str, Any] | None = None
) -> str | None:
    """Why the new sizes leave what the sample shows; None if they stay within.

    Args:
        sizes: the new sizes; all others stay.
        numbers: the numbers, and lists of numbers, that change with equal sizes.
    """
    arguments = {**view.given, **(numbers or {})}
    new = {
        tensor.path: [sizes.get((tensor.path, dim), size) for dim, size in enumerate(tensor.shape)]
        for tensor in view.tensors
    }
    became = _became_by_name(view, sizes)
    if any(len(new_sizes) > 1 for new_sizes in became.values()):
        return UNTIED
    changes = {(size, new) for (size, _), (new,) in became.items() if new != size}
    changed = {size for size, _ in changes}
    if numbers:
        if view.may_read_outside and _has_multiples(view, changed):
            return "a number changed, but not the sizes and numbers that are multiples of it"
    elif changed & set(numbers_in(view.given)):
        return NUMBER_DIFFERS
    if any(
        _is_counted(view, arguments, tensor, math.prod(new[tensor.path])) for tensor in view.tensors
    ):
        return "a number of elements that an argument gives as sizes differs from it"
    if _leaves_positions_outside(view, changes, new):
        return "a size smaller than integers of the sample, which may be positions in it"
    if _repeats_positions(view, new):
        return SEVERAL
    emptied = [tensor for tensor in view.tensors if 0 in new[tensor.path] and 0 not in tensor.shape]
    if any(tensor.holds_positions for tensor in emptied):
        return None  # no boxes, no edges, no tokens
    # Most ops treat a tensor of one element as a number.
    kept = [
        tensor for tensor in view.tensors if 0 not in new[tensor.path] and set(tensor.shape) - {1}
    ]
    if all(allows_empty(view.op, base_name(tensor.path)) for tensor in emptied):
        return None
    return "one of several tensors empty" if kept else None


def _became(view: SampleView, sizes: Sizes) -> Mapping[int, set[int]]:
    """The new sizes of each size in the sample; several if equal sizes change differently."""
    became: dict[int, set[int]] = defaultdict(set)
    for (size, _), new in _became_by_name(view, sizes).items():
        became[size] |= new
    return became


def _became_by_name(view: SampleView, sizes: Sizes) -> Mapping[tuple[int, str], set[int]]:
    """The same where docstrings give sizes names: equal sizes of different names are apart."""
    became: dict[tuple[int, str], set[int]] = defaultdict(set)
    for tensor in view.tensors:
        for dim, size in enumerate(tensor.shape):
            place = tensor.path, dim
            became[size, view.size_names.get(place, "")].add(sizes.get(place, size))
    return became


def numbers_in(arguments: Mapping[str, Any], least: int = 2) -> Iterator[int]:
    """The integers among the arguments and in lists, except dims.

    Args:
        least: smaller ones are left out.
    """
    for name, value in arguments.items():
        if not names_dims(name):
            listed = value if isinstance(value, (list, tuple)) else [value]
            yield from (number for number in listed if type(number) is int and number >= least)


def _changed_numbers(view: SampleView, changes: Mapping[int, int]) -> dict[str, Any]:
    """The new values of numbers, and lists of numbers, that are equal to a changing size."""
    return {
        name: type(value)(changes.get(number, number) for number in value)
        if isinstance(value, (list, tuple))
        else changes[value]
        for name, value in view.given.items()
        if changes.keys() & set(numbers_in({name: value}))
    }


def _has_multiples(view: SampleView, changed: set[int]) -> bool:
    """Whether a size or number that stays is a multiple of a number that changes."""
    numbers = set(numbers_in(view.given))
    kept = {size for tensor in view.tensors for size in tensor.shape} | numbers
    return any(
        size % divisor == 0 for divisor in changed & numbers for size in kept - changed if size
    )


def _is_counted(
    view: SampleView, arguments: Mapping[str, Any], tensor: TensorArgument, elements: int
) -> bool:
    """Whether a list of sizes gives a tensor's number of elements, and would no longer do so.

    Several numbers may be packed into one element, or one number spread over several.

    Args:
        arguments: the arguments after the change.
        elements: of the tensor after the change.
    """
    before = math.prod(tensor.shape)
    if elements == before or before < 2:
        return False
    for name, value in view.given.items():
        if isinstance(value, (list, tuple)) and len(value) > 1 and _are_sizes(value):
            count = math.prod(value)
            packed = {count / before, before / count} & {*_PACKED}
            if packed and math.prod(arguments[name]) * before != elements * count:
                return True
    return False


def _are_sizes(values: Sequence[Any]) -> bool:
    return all(type(value) is int and value > 0 for value in values)


def _repeats_positions(view: SampleView, new: Mapping[str, list[int]]) -> bool:
    """Whether listed integers of several tensors, which may belong together, become repeated.

    If only one tensor grows, it may repeat its integers if some occur twice in the sample. If several grow,
    they may if a pair, or a group, of their integers does. Integers of eight bits are codes, levels or
    bytes, and no positions.
    """
    wide = [tensor for tensor in view.tensors if tensor.dtype.itemsize > 1]
    if sum(tensor.holds_positions for tensor in wide) < 2:
        return False
    grown = [
        tensor
        for tensor in wide
        if tensor.listed_whole and math.prod(new[tensor.path]) > math.prod(tensor.shape)
    ]
    if len(grown) > 1:
        return not _has_repeated_group(grown)
    return any(tensor.has_distinct_numbers for tensor in grown)


def _has_repeated_group(tensors: Sequence[TensorArgument]) -> bool:
    """Whether the integers at one place of all tensors are the same as those at another place."""
    if len({tensor.shape for tensor in tensors}) > 1:
        return False
    groups = torch.stack([tensor.listed.flatten().to(torch.int64) for tensor in tensors], 1)
    return len(torch.unique(groups, dim=0)) < len(groups)


def _leaves_positions_outside(
    view: SampleView, changes: Collection[tuple[int, int]], new: Mapping[str, list[int]]
) -> bool:
    """Whether a size of another tensor becomes too small for the positions in a tensor."""
    for tensor in view.tensors:
        if 0 in new[tensor.path]:
            continue  # it has no positions
        most = tensor.highest_position
        others = {size for other in view.tensors if other is not tensor for size in other.shape}
        if most is not None and any(
            changed <= most < size for size, changed in changes if size in others
        ):
            return True
    return False
