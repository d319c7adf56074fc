"""Change a candidate to what the message of its rejection requires."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from .asked import (
    AskedShape,
    asked_alike,
    asked_dtypes,
    asked_numbers,
    asked_rank,
    asked_runs,
    asked_shapes,
    asked_size,
    names_of,
    number_of,
)
from .candidate import LETTERS, Candidate, Gene, ListGene, Plain, Size, TensorGene, fixed


def repaired(
    candidate: Candidate, message: str, about: Collection[str], rng: random.Random
) -> Candidate | None:
    """The candidate with the shape, rank, dtype or sizes that a message requires.

    Args:
        about: the arguments that the message names. If it names no tensor, every tensor may be meant.

    Returns:
        None if the message requires nothing that is recognized.
    """
    tensors = [name for name, gene in candidate.genes.items() if isinstance(gene, TensorGene)]
    meant = [name for name in tensors if name in about] or tensors
    if not meant:
        return None
    repairs: list[Candidate] = []
    for shape in asked_shapes(message, candidate.genes):
        name = shape.argument if shape.argument in tensors else rng.choice(meant)
        repairs.append(_shaped(candidate, name, shape))
    rank = asked_rank(message)
    if rank is not None:
        repairs.append(_of_rank(candidate, rng.choice(meant), rank))
    repairs += [
        _with_gene(candidate, name, gene.of_dtype(dtype))
        for dtype in asked_dtypes(message)
        for name, gene in candidate.genes.items()
        if name in about and isinstance(gene, TensorGene) and gene.dtype != dtype
    ]
    size = asked_size(message)
    if size is not None:
        repairs += _with_size(candidate, meant, *size)
    for old, new in asked_runs(message):
        repairs += _with_run(candidate, meant, old, new)
    repairs += _made_alike(
        candidate, [name for name in tensors if name in about], asked_alike(message)
    )
    # A shape in a message is more specific than a single number.
    if repairs and rng.random() < 0.8:
        return rng.choice(repairs)
    repairs += _with_number(candidate, about, asked_numbers(message))
    return rng.choice(repairs) if repairs else None


def _made_alike(candidate: Candidate, names: Sequence[str], what: str) -> Iterator[Candidate]:
    """Every candidate in which one of the tensors has the shape, or the dtype, of another one."""
    for name, source in itertools.permutations(names, 2) if what else ():
        gene, like = candidate.genes[name], candidate.genes[source]
        assert isinstance(gene, TensorGene)
        assert isinstance(like, TensorGene)
        if what == "shape":
            yield _with_gene(candidate, name, replace(gene, dims=like.dims))
        else:
            yield _with_gene(candidate, name, gene.of_dtype(like.dtype))


def _shaped(candidate: Candidate, name: str, shape: AskedShape) -> Candidate:
    """The candidate with the tensor in a shape. A named size is the same number everywhere."""
    for word in (word for dim in shape.dims for word in names_of(dim)):
        candidate = _with_letter(candidate, word)
    numbers = {word: size.number(candidate.sizes) for word, size in _named(candidate).items()}
    gene = candidate.genes[name]
    assert isinstance(gene, TensorGene)
    dims = []
    for at, dim in enumerate(shape.dims):
        number = number_of(dim, numbers)
        if dim in _named(candidate):
            dims.append(_named(candidate)[dim])
        elif number is not None:
            dims.append(fixed(number))
        else:
            dims.append(gene.dims[at] if at < len(gene.dims) else fixed(1))
    return _with_gene(candidate, name, replace(gene, dims=tuple(dims)))


def _of_rank(candidate: Candidate, name: str, rank: int) -> Candidate:
    """The candidate with the tensor in a rank: dims are removed at the front, or added with size 1."""
    gene = candidate.genes[name]
    assert isinstance(gene, TensorGene)
    ones = (fixed(1),) * (rank - len(gene.dims))
    dims = (*ones, *gene.dims[max(len(gene.dims) - rank, 0) :])
    return _with_gene(candidate, name, replace(gene, dims=dims))


def _with_size(
    candidate: Candidate, meant: Collection[str], dim: int, old: int, new: int
) -> Iterator[Candidate]:
    """Every candidate with the new size in a dim of a tensor that has the old size there."""
    for name in meant:
        gene = candidate.genes[name]
        assert isinstance(gene, TensorGene)
        if dim < len(gene.dims) and gene.dims[dim].number(candidate.sizes) == old:
            yield _with_dims(candidate, name, dim, new)


def _with_letter(candidate: Candidate, word: str) -> Candidate:
    """The candidate with a letter for a name. An integer argument of this name becomes the letter."""
    if word in _named(candidate) and word not in candidate.genes:
        return candidate
    gene = candidate.genes.get(word)
    if isinstance(gene, (Size, TensorGene, ListGene)):
        return candidate
    used = {
        letter for _, gene in candidate.tensors() for dim in gene.dims for letter in dim.letters
    }
    used |= {
        letter
        for gene in candidate.genes.values()
        if isinstance(gene, Size)
        for letter in gene.letters
    }
    used |= {*candidate.symbols.values()}
    free = next((letter for letter in reversed(LETTERS) if letter not in used), None)
    if free is None:
        return candidate
    value = gene.value if isinstance(gene, Plain) else None
    sizes = dict(candidate.sizes)
    if type(value) is int and value > 0:
        sizes[free] = value
    if gene is not None:
        changed = _with_gene(candidate, word, Size((free,)))
        return replace(changed, sizes=sizes)
    return replace(candidate, sizes=sizes, symbols={**candidate.symbols, word: free})


def _named(candidate: Candidate) -> dict[str, Size]:
    """The sizes that have a name: integer arguments, and names in messages."""
    sizes = {word: Size((letter,)) for word, letter in candidate.symbols.items()}
    for name, gene in candidate.genes.items():
        if isinstance(gene, Size):
            sizes[name] = gene
        elif isinstance(gene, Plain) and type(gene.value) is int and gene.value > 0:
            sizes[name] = fixed(gene.value)
    return sizes


def _with_run(
    candidate: Candidate, meant: Collection[str], old: tuple[int, ...], new: tuple[int, ...]
) -> Iterator[Candidate]:
    """Every candidate in which consecutive sizes of a tensor are replaced."""
    for name in meant:
        gene = candidate.genes[name]
        assert isinstance(gene, TensorGene)
        shape = candidate.shape(gene)
        for at in range(len(shape) - len(old) + 1):
            if shape[at : at + len(old)] == old:
                yield _with_dims(candidate, name, at, *new)


def _with_number(
    candidate: Candidate, about: Collection[str], numbers: Collection[int]
) -> Iterator[Candidate]:
    """Every candidate with one of the numbers in place of another one, as a size or as an argument."""
    named = {name: gene for name, gene in candidate.genes.items() if name in about}
    for name, gene in (named or candidate.genes).items():
        if isinstance(gene, TensorGene):
            for at, size in enumerate(gene.dims):
                old = size.number(candidate.sizes)
                for new in numbers if old in numbers else ():
                    if new == old:
                        continue
                    yield _with_dims(candidate, name, at, new)
                    if size == Size(size.letters[:1]) and size.letters:
                        yield replace(candidate, sizes={**candidate.sizes, size.letters[0]: new})
        elif isinstance(gene, Plain) and type(gene.value) is int and gene.value in numbers:
            for new in numbers:
                if new != gene.value:
                    yield _with_gene(candidate, name, Plain(new))


def _with_dims(candidate: Candidate, name: str, at: int, *sizes: int) -> Candidate:
    """The candidate with these sizes in the tensor, starting at a dim."""
    gene = candidate.genes[name]
    assert isinstance(gene, TensorGene)
    dims = (*gene.dims[:at], *map(fixed, sizes), *gene.dims[at + len(sizes) :])
    return _with_gene(candidate, name, replace(gene, dims=dims))


def _with_gene(candidate: Candidate, name: str, gene: Gene) -> Candidate:
    return replace(candidate, genes={**candidate.genes, name: gene})
