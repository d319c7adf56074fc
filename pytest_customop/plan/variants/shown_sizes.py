"""Whether a change of sizes leaves what the sample shows, and why."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...cases.argument_names import names_dims
from ...cases.resize import UNTIED
from .sample_view import SampleView, TensorArgument

# (argument path, dim) -> the new size
Sizes = Mapping[tuple[str, int], int]

# How many numbers are packed into one element: of 8, 4, 2, 1 bits in a byte.
_PACKED = (1, 2, 4, 8)


def beyond_sample(view: SampleView, sizes: Sizes) -> str | None:
    """Why the new sizes leave what the sample shows; None if they stay within.

    Args:
        sizes: the new sizes; all others stay.
    """
    new = {
        each.path: [sizes.get((each.path, dim), size) for dim, size in enumerate(each.shape)]
        for each in view.tensors
    }
    became: dict[int, set[int]] = defaultdict(set)
    for each in view.tensors:
        for size, changed in zip(each.shape, new[each.path], strict=True):
            became[size].add(changed)
    if any(len(found) > 1 for found in became.values()):
        return UNTIED
    changes = {size: one for size, (one,) in became.items() if one != size}
    if changes.keys() & set(_numbers(view)):
        return "a size that an argument gives as a number differs from it"
    if any(_is_counted(view, each, math.prod(new[each.path])) for each in view.tensors):
        return "a number of elements that an argument gives as sizes differs from it"
    if _leaves_positions_outside(view, changes):
        return "a size smaller than whole numbers of the sample, which may be positions in it"
    if _repeats_positions(view, new):
        return "positions that come twice in several tensors of whole numbers"
    emptied = [each for each in view.tensors if 0 in new[each.path] and 0 not in each.shape]
    if any(each.holds_positions for each in emptied):
        return None  # no boxes, no edges, no tokens
    # A tensor of one element is a number to most ops.
    kept = [each for each in view.tensors if 0 not in new[each.path] and set(each.shape) - {1}]
    return "one of several tensors empty" if emptied and kept else None


def _numbers(view: SampleView) -> Iterator[int]:
    """The whole numbers above 1 among the arguments, and in lists of them, that count no dims."""
    for name, value in view.given.items():
        if not names_dims(name):
            listed = value if isinstance(value, (list, tuple)) else [value]
            yield from (one for one in listed if type(one) is int and one > 1)


def _is_counted(view: SampleView, tensor: TensorArgument, elements: int) -> bool:
    """Whether a list of sizes says how many elements a tensor has, and it gets another number of them.

    Several numbers may be packed into one element, or one spread over several.
    """
    before = math.prod(tensor.shape)
    if elements == before or before < 2:
        return False
    lists = (value for value in view.given.values() if isinstance(value, (list, tuple)))
    counts = (math.prod(value) for value in lists if len(value) > 1 and _are_sizes(value))
    return any({count / before, before / count} & {*_PACKED} for count in counts)


def _are_sizes(values: Sequence[Any]) -> bool:
    return all(type(one) is int and one > 0 for one in values)


def _repeats_positions(view: SampleView, new: Mapping[str, list[int]]) -> bool:
    """Whether listed whole numbers of several tensors, which may belong together, are repeated."""
    return sum(each.holds_positions for each in view.tensors) > 1 and any(
        each.listed_whole and math.prod(new[each.path]) > math.prod(each.shape)
        for each in view.tensors
    )


def _leaves_positions_outside(view: SampleView, changes: Mapping[int, int]) -> bool:
    """Whether a size of another tensor becomes too small for the positions in one."""
    for each in view.tensors:
        most = each.highest_position
        others = {size for other in view.tensors if other is not each for size in other.shape}
        if most is not None and any(
            0 < new <= most < size for size, new in changes.items() if size in others
        ):
            return True
    return False
