"""Variants that are larger than a single block, tile or grid, and have sums of many elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod

from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument
from .shown_sizes import with_numbers

_ELEMENTS = 2**16 + 2**13  # one tensor has more, so that a part is left over after a grid
MOST = 2**19  # elements of all tensors together
_HUNDREDS = 389  # prime, and more than a block of 128 or 256 and a part of the next one
# Elements: a sum in half precision stops growing, and one block is too small. It is a prime for which the
# sum of a few numbers that repeat is no multiple of 256, which is 0 in eight bits.
_LONG = 4409


def steps(view: SampleView) -> Iterator[Step]:
    """Many rows, then many columns: the first dim of the first tensor grows, then its largest other dim.

    Then the first size that only other tensors have grows, such as the number of edges between nodes. All
    equal sizes grow together. Last come some hundred rows, for ops that compare each row with each, which
    would take too long with many rows.
    """
    tensors = [tensor for tensor in view.tensors if tensor.resizable]
    if not tensors:
        return
    first = tensors[0]
    free = _free_dims(view, first)
    rest = sorted((dim for dim in free[1:]), key=lambda dim: -first.shape[dim])
    places = [(first, dim, rank) for dim, rank in zip([*free[:1], *rest], (4, 10), strict=False)]
    elsewhere = [
        (tensor, dim, 5)
        for tensor in tensors[1:]
        for dim in _free_dims(view, tensor)
        if tensor.shape[dim] not in first.shape
    ]
    grown: set[int] = set()
    for tensor, dim, rank in [*places, *elsewhere[:1]]:
        size = tensor.shape[dim]
        if size not in grown:
            grown.add(size)
            larger = min(_needed(tensor.shape, size) for tensor in tensors if size in tensor.shape)
            name = f"large{dim}" if tensor is first else f"{tensor.path}.large{dim}"
            yield from _grown(view, tensors, (tensor, dim), larger, Step(name, "", {}, rank))
    for dim in free[:1]:
        yield from _grown(view, tensors, (first, dim), _HUNDREDS, Step(f"hundreds{dim}", "", {}, 6))


def long_steps(view: SampleView) -> Iterator[Step]:
    """The last dim of the first floating-point tensor, and all equal sizes, grown to some thousand.

    Then the dim before it, which may count positions in a sequence. Without a floating-point tensor, those
    of the first tensor: a sum of integers may be counted in too few bits.
    """
    tensors = [tensor for tensor in view.tensors if tensor.resizable]
    if not tensors:
        return
    first = next((tensor for tensor in tensors if tensor.floating), tensors[0])
    last = _free_dims(view, first)[:-3:-1]
    for dim, name in zip(last, ("long", "long_before"), strict=False):
        yield from _grown(view, tensors, (first, dim), _LONG, Step(name, "", {}, 5))


def _free_dims(view: SampleView, tensor: TensorArgument) -> list[int]:
    return [dim for dim, size in enumerate(tensor.shape) if size > 1 and size in view.free_sizes]


def _grown(
    view: SampleView,
    tensors: list[TensorArgument],
    place: tuple[TensorArgument, int],
    larger: int,
    step: Step,
) -> Iterator[Step]:
    """One dim of a tensor and all sizes equal to it grown; nothing if the tensors would be too large.

    Args:
        place: the tensor and the dim.
        larger: the new size.
        step: gives the name and the rank.
    """
    first, dim = place
    size = first.shape[dim]
    shapes = {tensor.path: replaced(tensor.shape, {size: larger}) for tensor in tensors}
    if larger > size and sum(map(prod, shapes.values())) <= MOST:
        changes = {
            tensor.path: tensor.resized(shapes[tensor.path])
            for tensor in tensors
            if shapes[tensor.path] != tensor.shape
        }
        sizes = {
            (tensor.path, at): larger
            for tensor in tensors
            for at, dim_size in enumerate(tensor.shape)
            if dim_size == size
        }
        description = f"dim {dim} of {first.path}, and all sizes equal to it, grown to {larger}"
        grown_step = step._replace(description=description, changes=changes, reads_beyond=True)
        yield from with_numbers(view, grown_step, sizes)


def _needed(shape: tuple[int, ...], size: int) -> int:
    """The smallest odd size with which a tensor has more elements than `_ELEMENTS`."""
    others = prod(dim_size for dim_size in shape if dim_size != size)
    if not others:
        return 0
    needed: int = ceil(((_ELEMENTS + 1) / others) ** (1 / shape.count(size)))
    return needed + 1 - needed % 2


def replaced(shape: tuple[int, ...], sizes: Mapping[int, int]) -> tuple[int, ...]:
    """A shape with other sizes in place of these."""
    return tuple(sizes.get(size, size) for size in shape)
