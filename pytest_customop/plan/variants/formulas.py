"""Variants of the integers from which, by a docstring, sizes follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from math import prod

from ...cases.documented_formulas import formulas_of, numbers_in, value_of
from ...cases.tensors import base_name
from ...declare.inputs import TensorSpec
from ...declare.variant import BY_FORMULA, Step
from .sample_view import SampleView, TensorArgument

_ELEMENTS = 2**16  # a larger variant tells no more


def steps(view: SampleView) -> Iterator[Step]:
    """Each such integer one more, with all sizes that follow: equal numbers of the sample differ then."""
    numbers = {
        argument.name: value
        for argument in view.op.arguments
        if type(value := view.value_of(argument)) is int and value > 0
    }
    formulas = {tensor.path: _formulas(view, tensor, numbers) for tensor in view.tensors}
    named = {
        name
        for terms in formulas.values()
        for term in terms.values()
        if isinstance(term, ast.BinOp)
        for name in numbers_in(term)
    }
    for name in (each for each in numbers if each in named):
        number = numbers[name] + 1
        changes = _changes(view, formulas, numbers | {name: number})
        if changes and not _has_other_size(view, formulas, numbers[name]):
            yield Step(
                f"{name}.{BY_FORMULA}",
                f"{name}={number}, and the sizes that follow from it",
                {name: number, **changes},
                3,
                reads_beyond=True,
            )


def _has_other_size(
    view: SampleView, formulas: Mapping[str, Mapping[int, ast.expr]], number: int
) -> bool:
    """Whether a size that no formula gives is equal to a number, and may have to follow it."""
    return any(
        size == number and dim not in formulas[tensor.path]
        for tensor in view.tensors
        for dim, size in enumerate(tensor.shape)
    )


def _formulas(
    view: SampleView, tensor: TensorArgument, numbers: Mapping[str, int]
) -> dict[int, ast.expr]:
    """The terms of a tensor's dims, by dim, of which each is right for the sample."""
    terms = formulas_of(view.op, base_name(tensor.path))
    if len(terms) != len(tensor.shape):
        return {}
    sized = zip(terms, tensor.shape, strict=True)
    return {
        dim: term
        for dim, (term, size) in enumerate(sized)
        if numbers_in(term) and value_of(term, numbers) == size
    }


def _changes(
    view: SampleView, formulas: Mapping[str, Mapping[int, ast.expr]], numbers: Mapping[str, int]
) -> dict[str, TensorSpec] | None:
    """The tensors whose sizes change; None if one cannot be drawn at its size."""
    changes = {}
    for tensor in view.tensors:
        sizes = dict(enumerate(tensor.shape))
        for dim, term in formulas[tensor.path].items():
            sizes[dim] = value_of(term, numbers) or 0
        shape = tuple(sizes.values())
        if shape == tensor.shape:
            continue
        spec = tensor.redrawn(shape) if min(shape) > 0 and prod(shape) <= _ELEMENTS else None
        if spec is None:
            return None
        changes[tensor.path] = spec
    return changes
