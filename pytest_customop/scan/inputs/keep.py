"""Keep a few of the candidates that an op accepts: plain ones that differ from each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .candidate import Candidate, Gene, ListGene, Plain, TensorGene
from .names import tensor_kind

_MOST = 3
_FURTHER = 30  # how much more than the plainest candidate a further one may cost


def unlike(accepted: Sequence[Candidate]) -> list[Candidate]:
    """The plainest candidate, and other plain ones that differ most from those that are kept."""
    if not accepted:
        return []
    costs = {id(candidate): cost_of(candidate) for candidate in accepted}
    kept = [min(accepted, key=lambda candidate: costs[id(candidate)])]
    most = costs[id(kept[0])] + _FURTHER
    others = [candidate for candidate in accepted if costs[id(candidate)] <= most]
    while len(kept) < _MOST:
        distances = {
            id(candidate): min(_distance(candidate, chosen) for chosen in kept)
            for candidate in others
        }
        best = max(others, key=lambda candidate: (distances[id(candidate)], -costs[id(candidate)]))
        if not distances[id(best)]:
            break
        kept.append(best)
    return kept


def cost_of(candidate: Candidate) -> int:
    """How far it is from a typical sample of an author: unusual dtypes, sizes that could be confused."""
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
    numbers = [number for number in values if type(number) is int or type(number) is float]
    cost += 8 * sum(number < -2 or number > 16 or number == 0.0 for number in numbers)
    return cost + 50 * max(len(floats) - 1, 0)


def _distance(first: Candidate, second: Candidate) -> int:
    """The number of arguments that differ in kind."""
    names = {*first.genes, *second.genes}
    return sum(_kind(first.genes.get(name)) != _kind(second.genes.get(name)) for name in names)


def _kind(gene: Gene | None) -> Any:
    if isinstance(gene, TensorGene):
        return len(gene.dims), str(gene.dtype)
    if isinstance(gene, ListGene):
        return "list", len(gene.elements), str({_kind(element) for element in gene.elements})
    value = getattr(gene, "value", None)
    return repr(value) if isinstance(value, (str, bool)) else type(value).__name__
