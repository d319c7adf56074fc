"""Make candidates: the first ones from the schema, and others by changing one that got far."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch

from ...declare.ops import Op
from .candidate import LETTERS, WHOLE, Candidate, Gene, ListGene, Plain, Size, TensorGene, fixed
from .names import DTYPES, INTEGERS, is_size, plain_values, tensor_kind
from .rejection import Rejection, Words
from .repair import repaired

_SIZES = dict(zip(LETTERS, (4, 6, 8, 3, 5, 2, 7, 16, 5, 2, 4, 3), strict=True))
_USUAL = (2, 4, 8, 16, 32, 64, 128, 256, 3, 5, 1)
_LARGEST = 512
_MOST_ELEMENTS = 1 << 16
_FOCUS = 0.75  # how often a change is of an argument that the rejection names
_REPAIRED = 0.4  # how often a change is what the message requires
_ANY_RANK = 0.25  # how often a tensor gets a number of dims that its name does not suggest
_NUMBERS_NAMED = 12  # the latest numbers that are tried


class Breeder:
    """Makes the candidates of one op.

    Args:
        op: the op.
        words: the words and numbers of sources and rejections.
        rng: draws the changes.
    """

    def __init__(self, op: Op, words: Words, rng: random.Random) -> None:
        self._words = words
        self._rng = rng
        self._types = {argument.name: _type_of(argument) for argument in op.arguments}
        self._lengths = {argument.name: getattr(argument, "N", None) for argument in op.arguments}
        self._optional = [
            argument.name for argument in op.arguments if argument.has_default_value()
        ]

    # The first ones

    def first(self) -> Iterator[Candidate]:
        """Candidates with the most common ranks and relations of shapes."""
        for rank in dict.fromkeys([*reversed(self._words.ranks), 2, 3, 1, 4, 0]):
            for family in ("same", "last", "matrices"):
                yield self._build(rank, family)

    def _build(self, rank: int, family: str) -> Candidate:
        genes: dict[str, Gene] = {}
        self._position = self._vectors = self._sizes = 0
        for name, kind in self._types.items():
            if name not in self._optional:
                genes[name] = self._first_gene(name, kind, rank, family)
        return Candidate(_SIZES, genes)

    def _first_gene(self, name: str, kind: str, rank: int, family: str) -> Gene:
        if kind.startswith("Optional["):
            return Plain(None)
        if kind.startswith("List["):
            inner = kind[len("List[") : -1]
            count = self._lengths.get(name) or 2
            return ListGene(
                tuple(self._first_gene(name, inner, rank, family) for _ in range(count))
            )
        if kind == "int" and is_size(name):
            self._sizes += 1
            return Size((LETTERS[(self._sizes - 1) % 6],))
        if kind != "Tensor":
            return Plain(next(iter(self._plain_values(kind, name)), None))
        known = tensor_kind(name)
        letters = [Size((letter,)) for letter in LETTERS[:rank]]
        dims: tuple[Size, ...] = tuple(letters)
        if known.ranks[0] != 2:
            ranks = known.ranks if rank not in known.ranks or rank > 2 else (rank,)
            dims = (Size(("a",)), *letters[1:])[: ranks[0]]
            if ranks[0] == 1 and letters:  # the sizes of the first tensor, in order, or its last
                at = self._vectors % rank if family == "matrices" else rank - 1
                dims = dims if family == "same" else (letters[at],)
                self._vectors += 1
        elif family == "last" and self._position:
            dims = tuple(letters[-1:])
        elif family == "matrices" and self._position and rank >= 2:
            dims = (*letters[:-2], Size((LETTERS[rank - 1],)), Size((LETTERS[rank],)))
        if known.contents[0] == "offsets":
            dims = (Size(("e",), plus=1),)
        if known.sizes:
            dims = (fixed(known.sizes[0]),)
        self._position += 1
        return TensorGene(dims, known.dtypes[0], known.contents[0])

    # Others

    def changed(self, candidate: Candidate, rejection: Rejection | None = None) -> Candidate:
        """A candidate with one change, or a few.

        Args:
            rejection: the rejection of the candidate, which shows what to change.
        """
        about: Collection[str] = ()
        if rejection is not None:
            about = rejection.about
            proposal = repaired(candidate, rejection.message, about, self._rng)
            if proposal is not None and self._rng.random() < _REPAIRED and _is_small(proposal):
                candidate = proposal
                if self._rng.random() < 0.7:
                    return candidate
        for _ in range(self._rng.choice((1, 1, 1, 2, 2, 3))):
            candidate = self._change(candidate, about)
        return candidate

    def _change(self, candidate: Candidate, about: Collection[str]) -> Candidate:
        rng = self._rng
        if rng.random() < 0.2:
            return self._resized(candidate)
        if rng.random() < 0.15:
            return self._made_alike(candidate, about)
        names = list(self._types)
        focus = [name for name in names if name in about]
        name = rng.choice(focus) if focus and rng.random() < _FOCUS else rng.choice(names)
        kind = self._types[name]
        genes = dict(candidate.genes)
        gene = genes.get(name)
        if gene is not None and name in self._optional and rng.random() < 0.3:
            del genes[name]
        elif gene is None or (gene == Plain(None) and rng.random() < 0.9):
            genes[name] = self._new(name, _required(kind), candidate)
        elif kind.startswith("Optional[") and rng.random() < 0.15:
            genes[name] = Plain(None)
        elif isinstance(gene, ListGene):
            genes[name] = self._other_list(name, _required(kind), gene, candidate)
        elif isinstance(gene, TensorGene):
            genes[name] = self._other_tensor(name, gene, candidate)
        else:
            genes[name] = self._new(name, _required(kind), candidate)
        ordered = {argument: genes[argument] for argument in names if argument in genes}
        changed = replace(candidate, genes=ordered)
        return changed if _is_small(changed) else candidate

    def _resized(self, candidate: Candidate) -> Candidate:
        """Another number for one of the letters."""
        used = sorted(
            {letter for _, gene in candidate.tensors() for d in gene.dims for letter in d.letters}
        )
        letter = self._rng.choice(used or ["a"])
        changed = replace(candidate, sizes={**candidate.sizes, letter: self._number()})
        return changed if _is_small(changed) else candidate

    def _made_alike(self, candidate: Candidate, about: Collection[str]) -> Candidate:
        """Give several tensors one dtype or one shape: the ones named, or all of floating point."""
        rng = self._rng
        tensors = {
            name: gene for name, gene in candidate.genes.items() if isinstance(gene, TensorGene)
        }
        named = [name for name in tensors if name in about]
        chosen = [name for name in tensors if tensor_kind(name).dtypes[0] is None]
        if len(named) > 1 and rng.random() < 0.7:
            chosen = named
        genes = dict(candidate.genes)
        if rng.random() < 0.6 or not chosen:
            dtypes = [None, *self._words.dtypes[-4:], *({gene.dtype for gene in tensors.values()})]
            dtype = rng.choice(dtypes)
            for name in chosen:
                genes[name] = tensors[name].of_dtype(None if dtype == torch.float32 else dtype)
        else:
            dims = tensors[rng.choice(chosen)].dims
            genes |= {name: replace(tensors[name], dims=dims) for name in chosen}
        changed = replace(candidate, genes=genes)
        return changed if _is_small(changed) else candidate

    def _number(self) -> int:
        """A size, by preference one that was named."""
        named = self._sizes_named()
        if named and self._rng.random() < 0.6:
            return min(self._rng.choice(named) * self._rng.choice((1, 1, 2)), _LARGEST)
        return self._rng.choice(_USUAL)

    def _sizes_named(self) -> list[int]:
        return [
            number for number in self._words.numbers[-_NUMBERS_NAMED:] if 0 < number <= _LARGEST
        ]

    def _new(self, name: str, kind: str, candidate: Candidate) -> Gene:
        """A value for an argument, whatever it was before."""
        rng = self._rng
        if kind.startswith("List["):
            inner = kind[len("List[") : -1]
            shapes = [gene.dims for _, gene in candidate.tensors() if gene.dims]
            if inner == "int" and shapes and rng.random() < 0.4:
                return ListGene(rng.choice(shapes))
            count = self._lengths.get(name) or rng.choice((2, 1, 3, 4))
            return ListGene(
                tuple(self._new(name, _required(inner), candidate) for _ in range(count))
            )
        if kind == "Tensor":
            known = tensor_kind(name)
            gene = TensorGene((), rng.choice(known.dtypes), rng.choice(known.contents))
            return self._with_dims(name, gene, rng.choice(known.ranks), candidate)
        tokens = _dims_of(candidate)
        if kind == "int" and tokens and rng.random() < 0.35:
            return rng.choice(tokens)
        values = self._plain_values(kind, name)
        return (
            Plain(rng.choice(values[:4] if rng.random() < 0.5 else values))
            if values
            else Plain(None)
        )

    def _plain_values(self, kind: str, name: str) -> list[Any]:
        words = self._words
        values = plain_values(kind, name)
        named: list[Any] = []
        if kind == "str":
            named = [*reversed(words.strings)]
        elif kind == "int" and not (values and isinstance(values[0], torch.dtype)):
            named = [*reversed(words.numbers[-_NUMBERS_NAMED:])]
            return [*values[:2], *named, *values[2:]]
        elif values and isinstance(values[0], torch.dtype):
            named = [*reversed(words.dtypes)]
        return list(dict.fromkeys([*named, *values])) if kind != "number" else values

    def _other_list(self, name: str, kind: str, gene: ListGene, candidate: Candidate) -> Gene:
        """A list of another length, or with another element."""
        rng, elements = self._rng, list(gene.elements)
        if kind == "List[int]" and rng.random() < 0.25:
            return self._new(name, kind, candidate)
        inner = _required(kind[len("List[") : -1]) if kind.startswith("List[") else kind
        if (not elements or rng.random() < 0.4) and not self._lengths.get(name):
            if elements and rng.random() < 0.5:
                elements.pop()
            else:
                elements.append(elements[-1] if elements else self._new(name, inner, candidate))
            return ListGene(tuple(elements))
        at = rng.randrange(len(elements)) if elements else 0
        old = elements[at] if elements else None
        if isinstance(old, TensorGene):
            new: Gene = self._other_tensor(name, old, candidate)
            if rng.random() < 0.5:
                return ListGene(tuple(new for _ in elements))
        else:
            new = self._new(name, inner, candidate)
        elements[at : at + 1] = [new]
        return ListGene(tuple(elements))

    def _other_tensor(self, name: str, gene: TensorGene, candidate: Candidate) -> TensorGene:
        rng, known = self._rng, tensor_kind(name)
        what = rng.random()
        if what < 0.3:
            named = [rank for rank in self._words.ranks[-3:] if rank <= 5]
            ranks = named if named and rng.random() < 0.6 else [*known.ranks]
            if rng.random() < _ANY_RANK:
                ranks = [2, 3, 4, 1]
            return self._with_dims(name, gene, rng.choice(ranks), candidate)
        if what < 0.62 and gene.dims:
            at = rng.randrange(len(gene.dims))
            return replace(
                gene, dims=(*gene.dims[:at], self._dim(candidate, name), *gene.dims[at + 1 :])
            )
        if what < 0.8:
            named_dtypes = [*reversed(self._words.dtypes[-6:])]
            dtypes = named_dtypes if named_dtypes and rng.random() < 0.5 else [*known.dtypes]
            dtypes = [*DTYPES, torch.bool] if rng.random() < 0.15 else dtypes
            dtype = rng.choice([*dtypes, known.dtypes[0]])
            return gene.of_dtype(None if dtype == torch.float32 else dtype)
        if what < 0.9:
            contents = [*known.contents, "indices", "positive", "ones", "offsets", "lengths"]
            changed = replace(gene, content=rng.choice(contents))
            whole = changed.content in WHOLE
            return (
                replace(changed, dtype=torch.int64)
                if whole and changed.dtype not in INTEGERS
                else changed
            )
        return replace(gene, total=self._dim(candidate, name))

    def _with_dims(
        self, name: str, gene: TensorGene, rank: int, candidate: Candidate
    ) -> TensorGene:
        """The tensor with `rank` dims, by preference those of another tensor."""
        others = [tensor.dims for _, tensor in candidate.tensors() if len(tensor.dims) >= rank]
        if others and self._rng.random() < 0.7:
            dims = self._rng.choice(others)
            start = self._rng.choice((0, len(dims) - rank))
            return replace(gene, dims=dims[start : start + rank])
        return replace(gene, dims=tuple(self._dim(candidate, name) for _ in range(rank)))

    def _dim(self, candidate: Candidate, name: str) -> Size:
        rng, known = self._rng, tensor_kind(name)
        tokens = _dims_of(candidate)
        what = rng.random()
        if tokens and what < 0.45:
            return rng.choice(tokens)
        if what < 0.6:
            return Size((rng.choice(LETTERS[:6]),))
        named = [*self._sizes_named(), *known.sizes]
        if what < 0.75:
            return fixed(
                rng.choice(named or [1, 3, 4]) if rng.random() < 0.7 else rng.choice((1, 2, 3, 4))
            )
        base = rng.choice(tokens) if tokens else Size(("a",))
        if not base.letters:
            return base
        if what < 0.83:
            return replace(base, plus=base.plus + rng.choice((1, 1, -1)))
        if what < 0.9:
            over = rng.choice((2, 2, 4, 8, *[size for size in named if size > 1][-3:]))
            return replace(base, over=base.over * over)
        if what < 0.95:
            return replace(base, times=base.times * 2)
        factor = rng.choice(tokens) if tokens else Size(("b",))
        return replace(base, letters=(*base.letters, *factor.letters)[:3])


def _type_of(argument: Any) -> str:
    """The type in the schema, with the names that it has for dtypes and the like."""
    kind = str(getattr(argument, "real_type", None) or argument.type)
    return kind.replace("SymInt", "int")


def _required(kind: str) -> str:
    return kind[len("Optional[") : -1] if kind.startswith("Optional[") else kind


def _dims_of(candidate: Candidate) -> list[Size]:
    return [size for _, gene in candidate.tensors() for size in gene.dims]


def _is_small(candidate: Candidate) -> bool:
    return all(
        torch.Size(candidate.shape(gene)).numel() <= _MOST_ELEMENTS
        and all(size > 0 for size in candidate.shape(gene))
        for _, gene in candidate.tensors()
    )
