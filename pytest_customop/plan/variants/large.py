"""Variants large enough to leave a single block, tile or grid: 70,000 elements and more of one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod

from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument
from .shown_sizes import beyond_sample

_ELEMENTS = 2**16 + 2**13  # what one tensor exceeds: what is left of a grid shows
_MOST = 2**19  # of all tensors together


def steps(view: SampleView) -> Iterator[Step]:
    """Many rows, then many columns: the first dim of the first tensor grows, then its largest other one.

    All sizes that are equal to it grow with it.
    """
    tensors = [each for each in view.tensors if each.resizable]
    if not tensors or not any(each.floating for each in view.tensors):
        return
    first = tensors[0]
    free = [dim for dim, size in enumerate(first.shape) if size > 1 and size in view.free_sizes]
    rest = sorted((dim for dim in free[1:]), key=lambda dim: -first.shape[dim])
    grown: set[int] = set()
    for dim, rank in zip([*free[:1], *rest], (4, 10), strict=False):
        size = first.shape[dim]
        if size not in grown:
            grown.add(size)
            yield from _grown(view, tensors, dim, rank)


def _grown(view: SampleView, tensors: list[TensorArgument], dim: int, rank: int) -> Iterator[Step]:
    """One dim of the first tensor, and all sizes equal to it, grown."""
    first = tensors[0]
    size = first.shape[dim]
    larger = min(_needed(each.shape, size) for each in tensors if size in each.shape)
    shapes = {each.path: _replaced(each.shape, {size: larger}) for each in tensors}
    if larger > size and sum(map(prod, shapes.values())) <= _MOST:
        changes = {
            each.path: each.resized(shapes[each.path])
            for each in tensors
            if shapes[each.path] != each.shape
        }
        description = f"dim {dim} of {first.path}, and all sizes equal to it, grown to {larger}"
        sizes = {
            (each.path, at): larger
            for each in tensors
            for at, one in enumerate(each.shape)
            if one == size
        }
        beyond = beyond_sample(view, sizes)
        yield Step(f"large{dim}", description, changes, rank, reads_beyond=True, beyond=beyond)


def _needed(shape: tuple[int, ...], size: int) -> int:
    """The smallest odd size with which a tensor has more elements than `_ELEMENTS`."""
    others = prod(other for other in shape if other != size)
    if not others:
        return 0
    needed: int = ceil(((_ELEMENTS + 1) / others) ** (1 / shape.count(size)))
    return needed + 1 - needed % 2


def _replaced(shape: tuple[int, ...], sizes: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(sizes.get(size, size) for size in shape)
