"""Parts of the entries of a group of dims: two of one size, few of many, all in two."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from .groups import DimGroup

_CHOICES = 4


class Part(NamedTuple):
    """Some entries.

    Args:
        description: for a message.
        code: of their positions.
    """

    description: str
    code: str

    @property
    def positions(self) -> torch.Tensor:
        """Their positions, which no one may write to."""
        return _positions(self.code)


@functools.lru_cache(maxsize=32)
def _positions(code: str) -> torch.Tensor:
    positions: torch.Tensor = eval(code, {"torch": torch})
    return positions


def _span(first: int, last: int) -> Part:
    named = str(first) if last == first + 1 else f"{first} to {last - 1}"
    return Part(named, f"torch.arange({first}, {last})")


def halves(size: int) -> Iterator[tuple[Part, Part]]:
    """Two parts of one size: the first and the last entries, and some chosen at random.

    A relation that holds by chance for one pair does not hold for all.
    """
    yield _span(0, size // 2), _span(size // 2, size)
    for seed in range(_CHOICES):
        order = (
            f"torch.randperm({size}, generator=torch.Generator().manual_seed({seed}))"
            f".view(2, {size // 2}).sort().values"
        )
        yield Part("", f"{order}[0]"), Part("", f"{order}[1]")


def windows(group: DimGroup) -> Iterator[Part]:
    """Parts of the trusted size from many entries: the last, the first, some in the middle, some apart."""
    trusted, size = group.trusted, group.size
    for first in dict.fromkeys((size - trusted, 0, size // 2 - trusted // 2)):
        yield _span(first, first + trusted)
    yield Part(
        "apart from each other",
        f"torch.arange({trusted}) * {size // trusted} + {(size - 1) % (size // trusted)}",
    )


def divisions(group: DimGroup) -> Iterator[tuple[Part, Part]]:
    """All of the many entries in two parts, each of several: an op may do nothing for a single one."""
    trusted, size = group.trusted, group.size
    first = size - trusted if size - trusted > 1 else 3
    if size - first > 1:
        yield _span(0, first), _span(first, size)
    yield _span(0, size // 2), _span(size // 2, size)
