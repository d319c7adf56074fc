"""Dims of arguments that have one size, and whose entries are taken together: the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.tensors import is_plain
from ....core.wording import listed
from ....declare.variant import MANY_PARTS

_STEP = "odd"  # the variant by shape that has a few entries more in each dim
_LARGE = 32  # entries from which on a sample has parts small enough to learn from
_PART = 8


class DimGroup(NamedTuple):
    """Dims whose entries belong together.

    Args:
        dims: (path of the argument, dim) of each.
        size: of each in the case.
        trusted: a smaller size, at which the op is right: that of the sample, or of a part of it.
    """

    dims: tuple[tuple[str, int], ...]
    size: int
    trusted: int

    def __str__(self) -> str:
        return listed([f"dim {dim} of `{path}`" for path, dim in self.dims])

    def taken(self, arguments: Arguments, index: torch.Tensor) -> Arguments:
        """The arguments with the entries at these positions, in this order, of every dim of the group."""

        def taken(name: str, tensor: torch.Tensor) -> torch.Tensor:
            dims = [dim for path, dim in self.dims if path == name]
            if not dims:
                return tensor
            value = tensor.detach()
            for dim in dims:
                value = value.index_select(dim, index.to(value.device))
            return value.requires_grad_(tensor.requires_grad)

        return arguments.map_distinct(taken)


def grown_groups(case: Case) -> list[DimGroup]:
    """The groups of a case that are larger than the size to learn from.

    In a variant, these are dims that are larger than in its sample, and were equal there. In a sample, they
    are dims so large that a small part of them can be taken. If a tensor has one size several times, its
    dims may belong together or not: there is a group for each possibility.
    """
    if case.kind == "shape" and case.variant != _STEP:
        return []
    if (case.variant or "").endswith(MANY_PARTS):
        return []  # offsets would refer to entries that are not taken
    before = case if case.base_case is None else case.base_case
    shapes = [
        {name: tensor.shape for name, tensor in item.inputs().tensors() if is_plain(tensor)}
        for item in (before, case)
    ]
    by_sizes: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name, shape in shapes[1].items():
        old = shapes[0].get(name, ())
        if len(old) == len(shape):
            for dim, sizes in enumerate(zip(old, shape, strict=True)):
                by_sizes.setdefault(sizes, []).append((name, dim))
    groups = []
    for (trusted, size), dims in by_sizes.items():
        if case.base_case is None and size >= _LARGE:
            trusted = _PART
        if 2 <= trusted < size:
            groups += [DimGroup(chosen, size, trusted) for chosen in _alternatives(dims)]
    return groups


def _alternatives(dims: list[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], ...]]:
    """All dims; where a tensor has several, the first of each and the last of each; a tensor alone."""
    first = dict(reversed(dims))
    last = dict(dims)
    alone = [pair for pair in dims if pair[0] == dims[0][0]]
    choices = [dims, sorted(first.items()), sorted(last.items()), alone, alone[:1], alone[-1:]]
    yield from dict.fromkeys(tuple(choice) for choice in choices)


class Entries(NamedTuple):
    """A case, and a function that makes fresh arguments with some of its entries."""

    case: Case
    arguments: Callable[[], Arguments]


def few_entries(case: Case, group: DimGroup, index: torch.Tensor, draw: int = 0) -> Entries:
    """A case, and a function that makes fresh arguments with some of its entries.

    Args:
        case, group: of `grown_groups`.
        index: the positions of the entries.
        draw: other numbers give other values.
    """
    drawn = replace(case, seed=case.seed + draw) if draw else case
    return Entries(drawn, group.taken(drawn.inputs(), index).copy)
