"""The cells of a mark's matrix that make sense for each sample.

There is no cell with gradients if no tensor can require them, only one dtype if no tensor takes the case's
dtype, and no cell for a layout that looks like the contiguous one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..cases.arguments import dtype_of, wants_grad, why_undrawable
from ..cases.tensors import is_differentiable, leaves
from ..core.tracebacks import raised_at
from ..core.wording import dtype_name
from ..declare.declaration import Declaration
from ..declare.inputs import Sample, TensorSpec
from ..declare.layouts import layout_named
from ..declare.samples import shortened
from .samples_function import call_samples_function


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell of the matrix, as `skip_if` gets it."""

    device: str
    dtype: torch.dtype
    requires_grad: bool
    layout: str
    sample_id: str
    axes: Mapping[str, Any] = field(default_factory=dict)


def cells_of(
    declaration: Declaration, device: str, dtypes: Sequence[torch.dtype], seed: int
) -> Iterator[tuple[Cell, Sample]]:
    """Every cell of one device, with its sample. This calls a samples function.

    Args:
        seed: of the session, for what a samples function draws.
    """
    names = list(declaration.axes)
    for values in itertools.product(*declaration.axes.values()):
        axes = dict(zip(names, values, strict=True))
        for dtype, requires_grad, sample in _samples(declaration, device, dtypes, axes, seed):
            for layout in declaration.layouts:
                if layout == "contiguous" or _looks_different(sample, layout):
                    yield Cell(device, dtype, requires_grad, layout, sample.id or "0", axes), sample


def error_cells(
    declaration: Declaration, device: str, dtypes: Sequence[torch.dtype]
) -> Iterator[tuple[Cell, Sample]]:
    """The cells of one device for the error samples.

    They are contiguous, at the first value of every axis, and without gradients unless a tensor has
    requires_grad=True.
    """
    axes = {name: values[0] for name, values in declaration.axes.items()}
    for sample in declaration.errors:
        specs, real = sample.specs(), _real_tensors(sample)
        requires_grad = any(spec.requires_grad for spec in specs)
        requires_grad = requires_grad or any(tensor.requires_grad for tensor in real)
        for dtype in _dtypes_of(sample, declaration, dtypes):
            cell = Cell(device, dtype, requires_grad, "contiguous", sample.id or "error", axes)
            yield cell, sample


def _samples(
    declaration: Declaration,
    device: str,
    dtypes: Sequence[torch.dtype],
    axes: Mapping[str, Any],
    seed: int,
) -> Iterator[tuple[torch.dtype, bool, Sample]]:
    """Each sample with every dtype and requires_grad that makes sense for it."""
    if not callable(declaration.samples):
        for sample in declaration.samples:
            for dtype in _dtypes_of(sample, declaration, dtypes):
                for requires_grad in _flags_of(sample, declaration, dtype):
                    yield dtype, requires_grad, sample
        return
    for dtype in dtypes:
        for requires_grad in declaration.requires_grad or (False, True):
            if requires_grad and not is_differentiable(dtype):
                continue
            samples = call_samples_function(declaration, device, dtype, requires_grad, axes, seed)
            for sample in samples:
                if requires_grad in _flags_of(sample, declaration, dtype):
                    yield dtype, requires_grad, sample


def _real_tensors(sample: Sample) -> list[torch.Tensor]:
    return [leaf for leaf in sample.leaves() if isinstance(leaf, torch.Tensor)]


def _follows_dtype(sample: Sample) -> bool:
    """Whether any described tensor takes the case's dtype."""
    return any(
        spec.dtype is None and (spec.values_dtype is None or is_differentiable(spec.values_dtype))
        for spec in sample.specs()
    )


def _dtypes_of(
    sample: Sample, declaration: Declaration, dtypes: Sequence[torch.dtype]
) -> Sequence[torch.dtype]:
    """The dtypes in which a sample runs; only its own if no tensor takes the case's."""
    real = _real_tensors(sample)
    cast = declaration.dtypes is not None and not declaration.as_given
    if _follows_dtype(sample) or (real and cast):
        return dtypes
    own_dtypes = [tensor.dtype for tensor in real]
    own_dtypes += [spec.dtype for spec in sample.specs() if spec.dtype is not None]
    differentiable = [dtype for dtype in own_dtypes if is_differentiable(dtype)]
    return (differentiable or own_dtypes or list(dtypes))[:1]


def _flags_of(sample: Sample, declaration: Declaration, dtype: torch.dtype) -> Sequence[bool]:
    """The values of requires_grad with which a sample runs in a dtype.

    Tensors that are checked as they are keep their own requires_grad.
    """
    op = declaration.op
    real = _real_tensors(sample)
    mutated = {id(value) for argument, value in op.bind(sample) if argument.name in op.mutated}
    possible = any(wants_grad(spec, dtype, id(spec) in mutated) for spec in sample.specs())
    flags = declaration.requires_grad or (False, True)
    if declaration.as_given:
        requires_grad = any(tensor.requires_grad for tensor in real)
        if real and not sample.specs():
            return [flag for flag in flags if flag == requires_grad]
        return [flag for flag in flags if possible or requires_grad or not flag]
    cast = declaration.dtypes is not None
    possible = possible or any(
        is_differentiable(dtype if cast and is_differentiable(t.dtype) else t.dtype)
        and id(t) not in mutated
        for t in real
    )
    return [flag for flag in flags if possible or not flag]


def _looks_different(sample: Sample, layout: str) -> bool:
    shapes = [spec.shape for spec in sample.specs() if not spec.layout and not spec.strides]
    shapes += [tuple(tensor.shape) for tensor in _real_tensors(sample)]
    return any(layout_named(layout).changes(shape) for shape in shapes)


def validate_drawable(declaration: Declaration, cell: Cell, sample: Sample) -> None:
    """Check that the described tensors of a sample can be drawn in the dtype of a cell.

    Raises:
        MarkError: for values or a range that the dtype cannot hold.
    """
    for argument, value in declaration.op.bind(sample):
        for path, leaf in leaves(value, argument.name):
            if not isinstance(leaf, TensorSpec):
                continue
            why = why_undrawable(leaf, cell.dtype)
            if why:
                half = (leaf.low is None) != (leaf.high is None)
                dtype = dtype_name(dtype_of(leaf, cell.dtype))
                raise declaration.mistake(
                    f"sample {cell.sample_id}: {path} = {shortened(leaf)} cannot be drawn in {dtype}: "
                    f"{why}{'; give both low= and high=' * half}"
                )


def skip_reason(declaration: Declaration, cell: Cell) -> str | None:
    """Why the mark's `skip_if` leaves this cell out; None if it does not."""
    return predicate_reason(declaration, "skip_if", declaration.skip_if, cell)


def predicate_reason(
    declaration: Declaration,
    keyword: str,
    predicate: Callable[[Any], str | None] | None,
    argument: Any,
) -> str | None:
    """The reason that a function of the mark returns for leaving out a cell or a variant, or None.

    Args:
        keyword: of the mark, for messages.

    Raises:
        MarkError: if the function raises, or returns something that is not a reason.
    """
    if predicate is None:
        return None
    try:
        reason = predicate(argument)
    except Exception as error:  # whatever the author's function raises
        raise declaration.mistake(
            f"{keyword} raised {type(error).__name__}: {error} ({raised_at(error)})"
        ) from error
    if reason is None or (isinstance(reason, str) and reason.strip()):
        return reason
    raise declaration.mistake(
        f"{keyword} returned {reason!r}: return the reason as a string, or None"
    )
