"""Entries along the first dims of arguments, each computed by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.documented_shapes import may_have_entries
from ....cases.tensors import base_name, is_plain
from ...values.memory.calls import GRADIENT
from .calls import Along, Rearranged, Results, Wrong, differing
from .groups import DimGroup

_ENTRIES = 6  # that are looked at; more would show no more
_ORDERS = 10
_MIRRORED = 3  # entries, which are there twice then


def first_dims(case: Case) -> Iterator[DimGroup]:
    """The groups of first dims of one size, with two entries or more."""
    tensors = [
        (name, tensor)
        for name, tensor in case.inputs().tensors()
        if is_plain(tensor) and tensor.dim()
    ]
    for size in dict.fromkeys(tensor.shape[0] for _, tensor in tensors):
        group = [(name, tensor) for name, tensor in tensors if tensor.shape[0] == size]
        have_entries = (
            may_have_entries(case.op, base_name(name), tensor.dim()) for name, tensor in group
        )
        if size > 1 and all(have_entries):
            yield DimGroup(tuple((name, 0) for name, _ in group), size, 1)


class AloneEntries:
    """The results of an op for entries of a group of first dims, each alone and among others.

    Args:
        case, group: whose entries are taken.
        arguments: as in `Rearranged`.
    """

    def __init__(
        self, case: Case, group: DimGroup, arguments: Callable[[], Arguments] | None = None
    ) -> None:
        self.case = case
        self.group = group
        self.count = min(group.size, _ENTRIES)
        self._calls = Rearranged(case, group, arguments)
        whole = self._calls.whole or {}
        self.along: Along = {
            name: 0
            for name, result in whole.items()
            if _size(result) == group.size and not name.startswith(GRADIENT)
        }
        taken = [self.taken([entry]) for entry in range(self.count)] if self.along else []
        self.alone = [result for result in taken if result is not None]
        self.along = {
            name: dim
            for name, dim in self.along.items()
            if all(_is_part(result.get(name), whole[name]) for result in self.alone)
        }
        self.each_is_taken = bool(self.along) and len(self.alone) == self.count

    def taken(self, entries: Sequence[int]) -> Results | None:
        """The results for entries in some order; None if the op raises."""
        return self._calls.taken(torch.tensor(entries), self.along)

    def wrong(self, entries: Sequence[int]) -> tuple[int, Wrong] | None:
        """The first place where an entry gives something else among the others than alone, and how.

        Results without a dim for the entries, and those of another shape, are left out.
        """
        together = self.taken(entries) or {}
        for place, entry in enumerate(entries):
            for name, alone in self._results(self.alone[entry]).items():
                among: Any = together.get(name)
                if _size(among) != len(entries):
                    continue
                wrong = differing(self.case, name, among[place : place + 1], alone)
                if wrong is not None and wrong.has_one_shape:
                    return place, wrong
        return None

    def orders(self) -> list[tuple[int, ...]]:
        """The entries in reverse, and drawn with repetition."""
        generator = torch.Generator().manual_seed(0)
        count = self.count
        drawn = [
            torch.randint(count, (count,), generator=generator).tolist() for _ in range(_ORDERS)
        ]
        return [*dict.fromkeys((tuple(reversed(range(count))), *map(tuple, drawn)))]

    def mirrored(self) -> AloneEntries:
        """The first entries, and then each of them with its steps along dim 1 in reverse.

        Such an entry begins with that with which the other one ends.
        """
        kept = min(self.count, _MIRRORED)

        def arguments() -> Arguments:
            return mirrored(self.case.inputs(), self.group, kept)

        return AloneEntries(self.case, self.group._replace(size=2 * kept), arguments)

    def pairs_of_mirrored(self) -> list[tuple[int, ...]]:
        """Each entry before and behind its other self."""
        kept = self.count // 2
        return [(entry, kept + entry, entry) for entry in range(kept)]

    def _results(self, results: Results) -> Mapping[str, Any]:
        """The results, and the gradients, that have a dim for the entries."""
        names = {*self.along, *(GRADIENT + path for path, _ in self.group.dims)}
        return {name: value for name, value in results.items() if name in names}


def mirrored(arguments: Arguments, group: DimGroup, kept: int) -> Arguments:
    """The arguments with the first entries of a group, and these once more with dim 1 in reverse."""
    paths = {path for path, _ in group.dims}

    def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path not in paths:
            return tensor
        first = tensor.detach()[:kept]
        other = first.flip(1) if first.dim() > 1 else first
        return torch.cat([first, other]).requires_grad_(tensor.requires_grad)

    return arguments.map_distinct(changed)


def independent_entries(case: Case) -> Iterator[AloneEntries]:
    """The groups of first dims whose entries give the same alone as together, in their order."""
    for group in first_dims(case):
        alone = AloneEntries(case, group)
        if alone.each_is_taken and alone.wrong(range(alone.count)) is None:
            yield alone


def _is_part(alone: Any, whole: torch.Tensor) -> bool:
    """Whether a result for one entry has the shape of an entry of that for all: no table of pairs."""
    return isinstance(alone, torch.Tensor) and alone.shape == (1, *whole.shape[1:])


def _size(result: Any) -> int | None:
    is_tensor = isinstance(result, torch.Tensor) and result.dim() > 0
    return int(result.shape[0]) if is_tensor else None
