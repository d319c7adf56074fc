"""Keep a few of the candidates that an op accepts: plain ones, and such as are unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .candidate import Candidate, Gene, ListGene, Plain, TensorGene
from .names import tensor_kind

_MOST = 3
_FURTHER = 30  # by how much less plain than the plainest a further one may be


def unlike(accepted: Sequence[Candidate]) -> list[Candidate]:
    """The plainest candidate, and others that differ most from those that are kept, if they are plain."""
    if not accepted:
        return []
    costs = {id(one): cost_of(one) for one in accepted}
    kept = [min(accepted, key=lambda one: costs[id(one)])]
    most = costs[id(kept[0])] + _FURTHER
    others = [one for one in accepted if costs[id(one)] <= most]
    while len(kept) < _MOST:
        distances = {id(one): min(_distance(one, other) for other in kept) for one in others}
        best = max(others, key=lambda one: (distances[id(one)], -costs[id(one)]))
        if not distances[id(best)]:
            break
        kept.append(best)
    return kept


def cost_of(candidate: Candidate) -> int:
    """How far it is from what an author would write: unusual dtypes, sizes that could be mistaken."""
    cost = 2 * len(candidate.genes)
    floats = set()
    for name, gene in candidate.tensors():
        shape, kind = candidate.shape(gene), tensor_kind(name)
        is_float = gene.dtype is None or gene.dtype.is_floating_point
        if is_float:
            floats.add(gene.dtype)
        cost += sum(shape) // 4 + 15 * shape.count(1) + 4 * (len(shape) - len(set(shape)))
        cost += 25 * (not shape and kind.ranks[0] != 0) + 12 * (len(shape) not in kind.ranks)
        expects_float = kind.dtypes[0] is None
        cost += 40 * (expects_float != is_float) + 10 * (gene.dtype != kind.dtypes[0])
        cost += 5 * (gene.content != kind.contents[0])
    values = (gene.value for gene in candidate.genes.values() if isinstance(gene, Plain))
    numbers = [one for one in values if type(one) is int or type(one) is float]
    cost += 8 * sum(one < -2 or one > 16 or one == 0.0 for one in numbers)
    return cost + 50 * max(len(floats) - 1, 0)


def _distance(one: Candidate, other: Candidate) -> int:
    """In how many arguments two differ in kind."""
    names = {*one.genes, *other.genes}
    return sum(_kind(one.genes.get(name)) != _kind(other.genes.get(name)) for name in names)


def _kind(gene: Gene | None) -> Any:
    if isinstance(gene, TensorGene):
        return len(gene.dims), str(gene.dtype)
    if isinstance(gene, ListGene):
        return "list", len(gene.elements), str({_kind(one) for one in gene.elements})
    value = getattr(gene, "value", None)
    return repr(value) if isinstance(value, (str, bool)) else type(value).__name__
