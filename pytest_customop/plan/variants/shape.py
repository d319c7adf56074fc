"""Variants with other sizes: empty, 1, odd, doubled, distinct, one more batch dim, no dims, broadcast.

Sizes that are equal in the sample may have to stay equal. They change together first, then one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import prod
from typing import NamedTuple

from ...cases.documented_empties import speaks_of_empty
from ...cases.resize import UNTIED
from ...cases.tensors import base_name
from ...core.wording import listed_briefly
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument
from .shown_sizes import Sizes, numbers_in, with_numbers

_ELEMENTS = 2**22  # a larger variant has at most four times the elements of the sample


class DimPlace(NamedTuple):
    """One dim of one tensor argument."""

    tensor: TensorArgument
    dim: int

    @property
    def size(self) -> int:
        return self.tensor.shape[self.dim]

    @property
    def key(self) -> tuple[str, int]:
        return self.tensor.path, self.dim


def steps(view: SampleView) -> Iterator[Step]:
    """All changes of sizes, except those that would be too large."""
    tensors = [tensor for tensor in view.tensors if tensor.resizable]
    free = free_places(view)
    if not free:
        return
    groups = by_size(free)
    first = view.tensors[0].path
    yield from _together(view, groups)
    yield from _distinct(view, tensors, free)
    yield from _named_apart(view, free)
    yield from _uneven_lists(view, free)
    for group in groups:
        yield from _group(view, group, _name(group[0], first, len(group)), alone=False)
    yield from _batched(view, tensors)
    yield from _without_dims(view, tensors)
    for group in groups:
        if len(group) > 1:
            for place in group:
                yield from _group(view, [place], _name(place, "", 1), alone=True)


def free_places(view: SampleView) -> list[DimPlace]:
    """The dims whose size can change."""
    tensors = [tensor for tensor in view.tensors if tensor.resizable]
    places = [DimPlace(tensor, dim) for tensor in tensors for dim in range(len(tensor.shape))]
    return [place for place in places if place.size in view.free_sizes]


def by_size(places: Sequence[DimPlace]) -> list[list[DimPlace]]:
    """The places grouped by size, in the order in which the sizes first occur."""
    order = [*dict.fromkeys(place.size for place in places)]
    ordered = sorted(places, key=lambda place: order.index(place.size))
    return [[*group] for _, group in groupby(ordered, key=lambda place: place.size)]


def _name(place: DimPlace, first: str, count: int) -> str:
    """The name of a step at a place, with `{}` for the change: `{}0`, `w.{}1`, `w.tied_{}1`.

    Args:
        first: the tensor that the name leaves out.
        count: how many equal sizes change together.
    """
    path, dim = place.key
    if path == first:
        return f"{{}}{dim}"
    return f"{path}.{'tied_' if count > 1 else ''}{{}}{dim}"


def _together(view: SampleView, groups: Sequence[Sequence[DimPlace]]) -> Iterator[Step]:
    """All sizes above 1 changed at once."""
    larger = [group for group in groups if group[0].size > 1]
    taken: set[int] = set()
    odd: dict[tuple[str, int], int] = {}
    for group in larger:
        size = _odd(group[0].size, taken)
        taken.add(size)
        odd |= {place.key: size for place in group}
    yield from resizing(view, odd, "odd", "every size odd", 1)
    doubled = {place.key: 2 * place.size for group in larger for place in group}
    yield from resizing(view, doubled, "doubled", "every size doubled", 11)
    leading = [group for group in larger if not any(map(_is_last, group))]
    if len(leading) > 1:  # a single one is changed alone
        ones = {place.key: 1 for group in leading for place in group}
        yield from resizing(view, ones, "ones", "every size 1, except those of last dims", 4)


def _is_last(place: DimPlace) -> bool:
    return place.dim == len(place.tensor.shape) - 1


def _odd(size: int, taken: set[int]) -> int:
    """The next larger odd size that is not taken: it is not a multiple of a vector's width."""
    odd = size + 1 + size % 2
    while odd in taken:
        odd += 2
    return odd


def _distinct(
    view: SampleView, tensors: Sequence[TensorArgument], free: Sequence[DimPlace]
) -> Iterator[Step]:
    """Sizes that differ within each tensor: by the dim's position, or so that a matrix product fits."""
    square = [tensor for tensor in tensors if len(set(tensor.shape)) < len(tensor.shape)]
    square = [tensor for tensor in square if max(tensor.shape) > 1]
    if not square:
        return
    allowed = {place.key for place in free if place.size > 1}
    by_position, by_product = {}, {}
    for index, tensor in enumerate(tensors):
        dims = len(tensor.shape)
        for dim, size in enumerate(tensor.shape):
            if (tensor.path, dim) in allowed:
                from_end = dims - dim
                by_position[tensor.path, dim] = size + 2 * (from_end - 1)
                by_product[tensor.path, dim] = size + 2 * (index + dim)
    yield from resizing(view, by_position, "distinct", "the sizes of each tensor distinct", 2)
    if len(tensors) > 1:
        description = "the sizes distinct, as of factors of a product"
        yield from resizing(view, by_product, "distinct_product", description, 4, alone=True)


def _named_apart(view: SampleView, free: Sequence[DimPlace]) -> Iterator[Step]:
    """Sizes that docstrings give different names, but are equal in the sample: apart, and each alone.

    They become multiples: a size may have to be even, or a multiple of another one.
    """
    terms = {name for name in view.size_names.values() if not name.isidentifier()}
    bound = {word for term in terms for word in re.findall(r"\w+", term)} | {*view.given}
    fixed = {view.size_names[key] for key in view.size_names.keys() - {place.key for place in free}}
    named: dict[int, dict[str, list[DimPlace]]] = {}
    for place in free:
        name = view.size_names.get(place.key, "")
        if name.isidentifier() and name not in bound | fixed and place.size > 1:
            named.setdefault(place.size, {}).setdefault(name, []).append(place)
    for group in by_size(free):
        size = group[0].size
        equal = named.get(size, {})
        if len({view.size_names.get(place.key) for place in group}) < 2 or not equal:
            continue
        names = listed_briefly([*equal])
        apart = {
            place.key: times * size
            for times, places in enumerate(equal.values(), 1)
            for place in places
        }
        description = f"the sizes {names}, which a docstring tells apart, made different"
        yield from resizing(view, apart, f"apart.{size}", description, 2, alone=True)
        for name, places in equal.items():
            doubled = {place.key: 2 * size for place in places}
            description = f"the size {name}, of a docstring, doubled"
            yield from resizing(view, doubled, f"doubled.{name}", description, 4, alone=True)


def _uneven_lists(view: SampleView, free: Sequence[DimPlace]) -> Iterator[Step]:
    """The last tensors of all lists with a size of their own, as of adapters with several ranks.

    Tensors of a list may differ in a size that no other tensor and no number has. Where such a size is
    that of several dims, each of these also grows alone.
    """
    in_lists = [place for place in free if "[" in place.tensor.path]
    last = {base_name(place.tensor.path): place.tensor.path for place in in_lists}
    several = [path for path in last.values() if not path.endswith("[0]")]
    elsewhere = {size for tensor in view.tensors if "[" not in tensor.path for size in tensor.shape}
    elsewhere |= set(numbers_in(view.given))
    for group in by_size([place for place in in_lists if place.size > 1]):
        size = group[0].size
        if size in elsewhere:
            continue
        grown = [place for place in group if place.tensor.path in several]
        dims = {place.dim for place in grown}
        for dim in (None, *(sorted(dims) if len(dims) > 1 else ())):
            sizes = {place.key: size + 1 for place in grown if dim in (None, place.dim)}
            description = f"size {size} one more in the last tensors of lists"
            name = f"last_tensors.{size + 1}"
            if dim is not None:
                description, name = f"{description}, at dim {dim} only", f"{name}.dim{dim}"
            for step in resizing(view, sizes, name, description, 4, alone=True):
                beyond = None if step.beyond == UNTIED else step.beyond
                yield step._replace(beyond=beyond)


def _group(view: SampleView, group: Sequence[DimPlace], name: str, alone: bool) -> Iterator[Step]:
    """Changes of one group of equal sizes.

    Args:
        alone: whether other equal sizes stay as they are.
    """
    size = group[0].size
    whose = f"dim {group[0].dim} of {group[0].tensor.path}"
    whose += " and of all sizes equal to it" if len(group) > 1 else ""
    empty_rank = 0 if group[0].dim == 0 else 2 if speaks_of_empty(view.op) else 7
    sizes: list[tuple[str, Callable[[int], int], str, int]] = [
        ("empty", lambda size: 0, "empty along", empty_rank),
        ("one", lambda size: 1, "size 1 at", 3 if group[0].dim == 0 else 8),
    ]
    if alone:
        # The op must broadcast these, or reject them.
        sizes = [
            ("one", lambda size: 1, "size 1 at", 6),
            ("odd", lambda size: _odd(size, set()), "odd", 13),
        ]
    for step, change, phrase, rank in sizes:
        changed = change(size)
        if changed != size:
            resized = {place.key: changed for place in group}
            yield from resizing(
                view, resized, name.format(step), f"{phrase} {whose}", rank, alone=alone
            )


def _batched(view: SampleView, tensors: Sequence[TensorArgument]) -> Iterator[Step]:
    """One more leading dim: of every tensor, then of each alone."""
    if len(tensors) == len(view.tensors):
        yield _with_batch(tensors, "batch", "one more leading dim", 5)
    if len(view.tensors) > 1:
        for tensor in tensors:
            yield _with_batch(
                [tensor], f"{tensor.path}.batch", f"one more leading dim of {tensor.path}", 14
            )


def _without_dims(view: SampleView, tensors: Sequence[TensorArgument]) -> Iterator[Step]:
    """Every tensor without dims, if all have the same shape, as in elementwise ops."""
    if len(tensors) == len(view.tensors) and len({tensor.shape for tensor in tensors}) == 1:
        changes = {tensor.path: tensor.resized(()) for tensor in tensors}
        beyond = "fewer dims"
        yield Step("no_dims", "every tensor without dims", changes, 10, True, beyond=beyond)


def _with_batch(tensors: Sequence[TensorArgument], name: str, description: str, rank: int) -> Step:
    changes = {tensor.path: tensor.resized((2, *tensor.shape)) for tensor in tensors}
    return Step(name, description, changes, rank, reads_beyond=True, beyond="one dim more")


def resizing(
    view: SampleView, sizes: Sizes, name: str, description: str, rank: int, alone: bool = False
) -> Iterator[Step]:
    """The step that gives the places these sizes, then the same with the numbers that equal changed sizes.

    Nothing if no size changes, or if the tensors would be too large.
    """
    changes = {}
    elements = 0
    for tensor in view.tensors:
        shape = tuple(sizes.get((tensor.path, dim), size) for dim, size in enumerate(tensor.shape))
        elements += prod(shape)
        if shape != tensor.shape:
            changes[tensor.path] = tensor.resized(shape)
    before = sum(prod(tensor.shape) for tensor in view.tensors)
    if changes and elements <= max(4 * before, _ELEMENTS):
        shrinks = any(
            prod(changes[tensor.path].shape) < prod(tensor.shape)
            for tensor in view.tensors
            if tensor.path in changes
        )
        yield from with_numbers(
            view, Step(name, description, changes, rank, alone or shrinks), sizes
        )
