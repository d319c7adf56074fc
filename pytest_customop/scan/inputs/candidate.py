"""A candidate: one argument list, described so that related sizes stay related when one changes."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...declare.inputs import Sample, TensorSpec, tensor
from ...declare.ops import Op
from .names import INTEGERS

LETTERS = "abcdefghijkl"  # the last ones are for sizes that a message names

WHOLE = ("indices", "offsets", "lengths", "permutation")  # contents of integers


@dataclass(frozen=True)
class Size:
    """A size: a product of letters, which stand for numbers, changed by constants.

    Args:
        letters: their numbers are multiplied.
        times, over, plus: the product is multiplied by `times`, divided by `over`, and increased by `plus`.
    """

    letters: tuple[str, ...] = ()
    times: int = 1
    over: int = 1
    plus: int = 0

    def number(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        if not self.letters:
            return self.plus
        return max(
            math.prod(sizes[letter] for letter in self.letters) * self.times // self.over
            + self.plus,
            0,
        )


def fixed(number: int) -> Size:
    """A size that does not depend on any letter."""
    return Size(plus=number)


@dataclass(frozen=True)
class TensorGene:
    """A tensor of a candidate.

    Args:
        dims: its sizes.
        dtype: None for the dtype of the case.
        content: the kind of its values: one of `TensorKind.contents`, in `names`.
        total: the end of the range of indices, the last of the offsets, or the sum of the lengths.
    """

    dims: tuple[Size, ...]
    dtype: torch.dtype | None = None
    content: str = "real"
    total: Size = Size(("a",))

    def of_dtype(self, dtype: torch.dtype | None) -> TensorGene:
        """The tensor in another dtype, with fitting values."""
        content = self.content
        floats = dtype is None or dtype.is_floating_point
        if floats and content in WHOLE:
            content = "real"
        elif not floats and content in ("real", "positive", "boxes"):
            content = "indices" if dtype in INTEGERS else "bytes"
        return replace(self, dtype=dtype, content=content)


@dataclass(frozen=True)
class ListGene:
    """A list of a candidate."""

    elements: tuple[Gene, ...]


@dataclass(frozen=True)
class Plain:
    """A value that is passed as it is."""

    value: Any


Gene = TensorGene | ListGene | Plain | Size


@dataclass(frozen=True)
class Candidate:
    """One argument list.

    Args:
        sizes: the numbers that letters stand for.
        genes: by argument, in the order of the schema; arguments at their defaults are left out.
        symbols: the letters for names of sizes in messages, apart from the names of arguments.
    """

    sizes: Mapping[str, int]
    genes: Mapping[str, Gene]
    symbols: Mapping[str, str] = field(default_factory=dict)

    def tensors(self) -> Iterator[tuple[str, TensorGene]]:
        """The tensors, each with its argument."""
        for name, gene in self.genes.items():
            for element in gene.elements if isinstance(gene, ListGene) else (gene,):
                if isinstance(element, TensorGene):
                    yield name, element

    def shape(self, gene: TensorGene) -> tuple[int, ...]:
        """The shape of one of its tensors."""
        return tuple(dim.number(self.sizes) for dim in gene.dims)

    def sample(self, op: Op, name: str | None = None) -> Sample:
        """The candidate as an author would write it."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        gap = False
        for argument in op.arguments:
            if argument.name not in self.genes:
                gap = True
                continue
            value = self._value(self.genes[argument.name])
            if gap or argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return Sample(tuple(args), kwargs, name)

    def _value(self, gene: Gene) -> Any:
        if isinstance(gene, ListGene):
            return [self._value(element) for element in gene.elements]
        if isinstance(gene, Size):
            return gene.number(self.sizes)
        return self._tensor(gene) if isinstance(gene, TensorGene) else gene.value

    def _tensor(self, gene: TensorGene) -> TensorSpec:
        shape, dtype = self.shape(gene), gene.dtype
        count, total = math.prod(shape), gene.total.number(self.sizes)
        drawn = random.Random(f"{shape}{total}{gene.content}")
        if gene.content == "positive":
            return tensor(*shape, dtype=dtype, low=0.1, high=1.0)
        if gene.content == "ones":
            return tensor(*shape, dtype=dtype, fill=1)
        if gene.content == "indices":
            return tensor(*shape, dtype=dtype, low=0, high=max(total, 1))
        if gene.content == "bytes":
            return tensor(*shape, dtype=dtype)
        if gene.content == "boxes" and shape and shape[-1] >= 4:
            return tensor(values=_nested(_boxes(drawn, shape), shape), dtype=dtype)
        if gene.content == "levels" and 1 < count <= 256 and len(shape) == 1:
            return tensor(
                values=[round(2 * at / (count - 1) - 1, 3) for at in range(count)], dtype=dtype
            )
        numbers = _numbers(gene.content, drawn, count, total)
        if numbers is not None and len(shape) == 1:
            explicit = dtype if dtype != torch.int64 else None
            return tensor(values=numbers, dtype=explicit)
        return tensor(*shape, dtype=dtype)


def _numbers(content: str, drawn: random.Random, count: int, total: int) -> list[int] | None:
    """Permutations, offsets or lengths; None for other contents."""
    if not 0 < count <= 4096:
        return None
    if content == "permutation":
        numbers = list(range(count))
        drawn.shuffle(numbers)
        return numbers
    if content == "offsets":
        return [0, *sorted(drawn.randint(0, total) for _ in range(count - 2)), total][-count:]
    if content == "lengths":
        cuts = [0, *sorted(drawn.randint(0, total) for _ in range(count - 1)), total]
        return [end - start for start, end in itertools.pairwise(cuts)]
    return None


def _boxes(drawn: random.Random, shape: tuple[int, ...]) -> list[float]:
    """Boxes with corners in order. Numbers in front of the corners, such as an image index, are 0."""
    numbers: list[float] = []
    for _ in range(math.prod(shape[:-1])):
        low = [drawn.randint(0, 3) for _ in range(2)]
        corners = [*low, *(start + drawn.randint(1, 4) for start in low)]
        numbers += [0.0] * (shape[-1] - 4) + [float(corner) for corner in corners]
    return numbers


def _nested(numbers: list[float], shape: tuple[int, ...]) -> Any:
    return torch.tensor(numbers).reshape(shape).tolist()
