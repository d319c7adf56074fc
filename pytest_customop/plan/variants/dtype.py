"""Variants of other dtypes: all tensors in another one, or one tensor alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from ...cases.arguments import is_drawable
from ...cases.documented import dtypes_of, promotes_dtypes
from ...cases.tensors import base_name
from ...core.wording import dtype_name
from ...declare.inputs import TensorSpec
from ...declare.ops import Op
from ...declare.variant import Step
from .named_dtypes import floats_beside
from .sample_view import SampleView, TensorArgument
from .values import range_of

_OTHER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float32,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex64,
    torch.int32: torch.int64,
    torch.int64: torch.int32,
}
_HALF = torch.bfloat16
_WHOLE = (torch.uint8, torch.int8, torch.int32, torch.int64)


def steps(view: SampleView, declared: bool) -> Iterator[Step]:
    """All floating-point tensors in another dtype, then each tensor alone.

    One tensor alone leaves what the sample shows, unless a docstring says that the op promotes.

    Args:
        declared: whether the mark or the session says which dtypes the op supports. Only changes of
            one tensor alone are made then.
    """
    floats = [each for each in view.tensors if each.floating]
    if floats and not declared:
        named = [each for each in view.named_dtypes if not each.is_complex]
        named += _documented(view.op, floats)
        ranks = {_HALF: 9} | dict.fromkeys(named, 4)
        if floats[0].dtype in _OTHER:
            ranks[_OTHER[floats[0].dtype]] = 2
        for dtype, rank in ranks.items():
            yield from _all_of(dtype, floats, rank)
    if not floats and not declared:
        yield from _listed_floats(view)
        yield from _whole(view)
    if len(view.tensors) < 2:
        return
    promotes = promotes_dtypes(view.op)
    for each in view.tensors:
        beyond = None if promotes and each.floating else "one tensor in another dtype"
        wider = _OTHER.get(each.dtype)
        if wider is None:
            continue
        changed = replace(each.spec, dtype=wider)
        if is_drawable(changed):
            name = dtype_name(wider)
            yield Step(
                f"{each.path}.{name}",
                f"{each.path} of {name}, the others of their own dtype",
                {each.path: changed},
                6 if each.floating else 13,
                reads_beyond=True,
                beyond=beyond,
            )


def _documented(op: Op, floats: Sequence[TensorArgument]) -> list[torch.dtype]:
    """The dtypes that docstrings name for every floating-point tensor, beside its own."""
    named = [dtypes_of(op, base_name(each.path)) for each in floats]
    beside = all(each.dtype in found for each, found in zip(floats, named, strict=True))
    return [one for one in named[0] if beside and all(one in found for found in named)]


def complex_numbers(view: SampleView) -> Iterator[Step]:
    """All floating-point tensors complex, where the op's code lists such a dtype, or asks for it."""
    floats = [each for each in view.tensors if each.floating]
    for dtype in view.named_dtypes:
        if dtype.is_complex and floats and not any(each.dtype.is_complex for each in floats):
            yield from _all_of(dtype, floats, 4)
            return


def _all_of(dtype: torch.dtype, floats: Sequence[TensorArgument], rank: int) -> Iterator[Step]:
    """All floating-point tensors in one other dtype."""
    changes = {each.path: _cast(each.spec, dtype) for each in floats}
    if all(each.dtype == dtype for each in floats) or not all(map(is_drawable, changes.values())):
        return
    if not (dtype.is_floating_point or dtype.is_complex or all(map(_is_finite, floats))):
        return  # no whole number is NaN
    name = dtype_name(dtype)
    mixed = len({each.dtype for each in floats}) > 1
    yield Step(
        name,
        f"tensors of {name}",
        changes,
        rank,
        reads_beyond=dtype.itemsize < floats[0].dtype.itemsize,
        beyond="dtypes that differ in the sample made equal" if mixed else None,
    )


def _is_finite(each: TensorArgument) -> bool:
    return each.spec.values is None or bool(each.listed.isfinite().all())


def _cast(spec: TensorSpec, dtype: torch.dtype) -> TensorSpec:
    """The description in another dtype; listed real numbers become complex ones that are drawn."""
    if dtype.is_complex and spec.values is not None:
        return replace(spec, dtype=dtype, values=None)
    return replace(spec, dtype=dtype)


def _listed_floats(view: SampleView) -> Iterator[Step]:
    """The only tensor, of whole numbers, in each floating-point dtype that the code lists beside it."""
    if len(view.tensors) == 1:
        (each,) = view.tensors
        for dtype in floats_beside(view.op, each.dtype):
            changes = {each.path: replace(each.spec, dtype=dtype)}
            yield Step(dtype_name(dtype), f"a tensor of {dtype_name(dtype)}", changes, 4)


def _whole(view: SampleView) -> Iterator[Step]:
    """All tensors of an op that gets whole numbers only in another dtype that holds their range."""
    tensors = [each for each in view.tensors if each.dtype != torch.bool]
    ranges = [range_of(each) for each in tensors]
    for dtype in _WHOLE:
        limits = torch.iinfo(dtype)
        if any(
            span is None or span[0] < limits.min or span[1] > limits.max or each.dtype == dtype
            for each, span in zip(tensors, ranges, strict=True)
        ):
            continue
        changes = {each.path: _of_dtype(each, dtype) for each in tensors}
        if changes:
            name = dtype_name(dtype)
            rank = 10 if dtype == torch.uint8 else 13
            yield Step(
                name,
                f"tensors of {name}",
                changes,
                rank,
                reads_beyond=True,
                beyond="whole numbers of another dtype",
            )


def _of_dtype(each: TensorArgument, dtype: torch.dtype) -> TensorSpec:
    """A tensor of whole numbers in another dtype, with a range that the dtype has."""
    if each.spec.values is not None or each.spec.low is not None or each.spec.high is not None:
        return replace(each.spec, dtype=dtype)
    span = range_of(each)
    assert span is not None
    return replace(each.spec, dtype=dtype, low=span[0], high=span[1] + 1)
