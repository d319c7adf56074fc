"""Variants of other dtypes: all tensors in another one, or one tensor alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ...cases.argument_names import names_positions
from ...cases.arguments import is_drawable
from ...cases.documented_dtypes import (
    dtypes_of,
    listed_dtypes,
    listed_integers,
    may_be_bytes,
    may_be_complex,
    may_be_floating,
    may_be_wider,
    promotes_dtypes,
    takes_complex,
)
from ...cases.tensors import base_name
from ...core.wording import dtype_name, listed_briefly
from ...declare.inputs import TensorSpec
from ...declare.ops import Op
from ...declare.variant import Step
from .named_dtypes import floats_beside
from .sample_view import SampleView, TensorArgument
from .values import range_of

_SAID = 3  # the rank of dtypes that a docstring allows side by side
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

    A change of one tensor alone leaves what the sample shows, unless a docstring says that the op promotes.

    Args:
        declared: whether the mark or the session declares which dtypes the op supports. Then only one
            tensor at a time changes.
    """
    floats = [tensor for tensor in view.tensors if tensor.floating]
    if floats and not declared:
        named = [dtype for dtype in view.named_dtypes if not dtype.is_complex]
        documented = {name: dtypes_of(view.op, name) for name in _names(floats)}
        named += _documented(view.op, floats, documented)
        ranks = {_HALF: 9} | dict.fromkeys(named, 4)
        if floats[0].dtype in _OTHER:
            ranks[_OTHER[floats[0].dtype]] = 2
        for dtype, rank in ranks.items():
            yield from _all_of(dtype, floats, rank, _undocumented(floats, documented, dtype))
        yield from _floats_for_whole_numbers(view, floats[0].dtype)
        yield from _bytes(view.op, floats)
        yield from _wider_beside_half(view.op, floats)
    if not floats and not declared:
        yield from _listed_floats(view)
        yield from _alike_as_floats(view)
        yield from _whole(view)
    if not declared:
        yield from _documented_integers(view)
    if len(view.tensors) < 2:
        return
    promotes = promotes_dtypes(view.op)
    for tensor in view.tensors:
        wider = _OTHER.get(tensor.dtype)
        if wider is None:
            continue
        is_half = tensor.floating and tensor.dtype.itemsize == 2
        is_mixed = is_half and may_be_wider(view.op, base_name(tensor.path))
        is_said = tensor.floating and (promotes or is_mixed)
        rank = _SAID if is_said else 6 if tensor.floating else 13
        beyond = None if is_said else "one tensor in another dtype"
        changed = replace(tensor.spec, dtype=wider)
        if is_drawable(changed):
            name = dtype_name(wider)
            yield Step(
                f"{tensor.path}.{name}",
                f"{tensor.path} of {name}, the others of their own dtype",
                {tensor.path: changed},
                rank,
                reads_beyond=True,
                beyond=beyond,
            )


def _names(tensors: Sequence[TensorArgument]) -> list[str]:
    return [base_name(tensor.path) for tensor in tensors]


def _documented(
    op: Op, floats: Sequence[TensorArgument], documented: Mapping[str, Sequence[torch.dtype]]
) -> list[torch.dtype]:
    """The dtypes that docstrings name for every floating-point tensor together with its own.

    Args:
        documented: those in the text about each, by name.
    """
    every = listed_dtypes(op)
    named = [documented[name] or every for name in _names(floats)]
    beside = all(tensor.dtype in dtypes for tensor, dtypes in zip(floats, named, strict=True))
    return [dtype for dtype in named[0] if beside and all(dtype in dtypes for dtypes in named)]


def _undocumented(
    floats: Sequence[TensorArgument],
    documented: Mapping[str, Sequence[torch.dtype]],
    dtype: torch.dtype,
) -> str | None:
    """Why a dtype leaves what is documented: a docstring gives the dtypes of a tensor, without this one."""
    for tensor, name in zip(floats, _names(floats), strict=True):
        if tensor.dtype in documented[name] and dtype not in documented[name]:
            return f"a dtype that the docstring does not give for {name}"
    return None


def _wider_beside_half(op: Op, floats: Sequence[TensorArgument]) -> Iterator[Step]:
    """The tensors in bfloat16 but for those that a docstring allows to be float32 beside half precision."""
    wider = [tensor for tensor in floats if may_be_wider(op, base_name(tensor.path))]
    if wider and all(tensor.dtype == torch.float32 for tensor in wider):
        changes = {
            tensor.path: replace(tensor.spec, dtype=torch.bfloat16)
            for tensor in floats
            if tensor not in wider and tensor.dtype == torch.float32
        }
        if changes and all(map(is_drawable, changes.values())):
            names = listed_briefly([tensor.path for tensor in wider])
            what = f"{names} of float32, the others of bfloat16"
            yield Step(f"{wider[0].path}.wider", what, changes, 3, True)


def _bytes(op: Op, floats: Sequence[TensorArgument]) -> Iterator[Step]:
    """All tensors of the size of one that may be uint8 by its docstring, with any bytes as in images."""
    unwritten = [tensor for tensor in floats if not tensor.mutated]
    images = {tensor.shape for tensor in unwritten if may_be_bytes(op, base_name(tensor.path))}
    changes = {tensor.path: _of_bytes(tensor) for tensor in unwritten if tensor.shape in images}
    if changes:
        yield Step("uint8", f"{listed_briefly([*changes])} of uint8", changes, 3, True)


def _floats_for_whole_numbers(view: SampleView, dtype: torch.dtype) -> Iterator[Step]:
    """An integer tensor, such as weights that are counts, as floating-point where a docstring allows it."""
    for tensor in view.tensors:
        name = base_name(tensor.path)
        if tensor.holds_positions and not (tensor.mutated or names_positions(name)):
            changed = replace(tensor.spec, dtype=dtype)
            if may_be_floating(view.op, name) and is_drawable(changed):
                what = f"{tensor.path} of {dtype_name(dtype)}"
                yield Step(
                    f"{tensor.path}.{dtype_name(dtype)}", what, {tensor.path: changed}, 3, True
                )


def _alike_as_floats(view: SampleView) -> Iterator[Step]:
    """All tensors of one integer dtype as float32, where a docstring allows it for one of them."""
    for dtype in dict.fromkeys(tensor.dtype for tensor in view.tensors if tensor.holds_positions):
        alike = {
            tensor.path: tensor
            for tensor in view.tensors
            if tensor.dtype == dtype and not names_positions(base_name(tensor.path))
        }
        allowed = any(_may_be_float32(view.op, base_name(path), dtype) for path in alike)
        if allowed and not any(tensor.mutated for tensor in alike.values()):
            changes = {
                path: replace(tensor.spec, dtype=torch.float32) for path, tensor in alike.items()
            }
            if all(map(is_drawable, changes.values())):
                name = f"{dtype_name(dtype)}_as_float32"
                yield Step(name, f"tensors of {dtype_name(dtype)} as float32", changes, 3, True)


def _may_be_float32(op: Op, argument: str, dtype: torch.dtype) -> bool:
    """Whether the text about an argument of an integer dtype allows floating-point numbers."""
    return may_be_floating(op, argument) or {dtype, torch.float32} <= {*dtypes_of(op, argument)}


def complex_numbers(view: SampleView) -> Iterator[Step]:
    """All floating-point tensors complex, where code or a docstring names complex numbers.

    Where others are complex: a real one alone of which a docstring says that it may be complex.
    """
    floats = [tensor for tensor in view.tensors if tensor.floating]
    named = [dtype for dtype in view.named_dtypes if dtype.is_complex]
    if not named and takes_complex(view.op):
        named = [torch.complex64]
    if named and floats and not any(tensor.dtype.is_complex for tensor in floats):
        yield from _all_of(named[0], floats, 4)
    for tensor in floats if any(other.dtype.is_complex for other in view.tensors) else ():
        real = not tensor.dtype.is_complex and not tensor.mutated
        if real and may_be_complex(view.op, base_name(tensor.path)):
            dtype = tensor.dtype.to_complex()
            name = dtype_name(dtype)
            changes = {tensor.path: _cast(tensor, dtype)}
            yield Step(f"{tensor.path}.{name}", f"{tensor.path} of {name}", changes, 4, True)


def _all_of(
    dtype: torch.dtype, floats: Sequence[TensorArgument], rank: int, beyond: str | None = None
) -> Iterator[Step]:
    """All floating-point tensors in one other dtype, complex ones in that of its precision."""
    are_complex = [tensor.dtype.is_complex for tensor in floats]
    has_partner = dtype in (torch.float32, torch.float64)  # among complex dtypes
    if any(are_complex) and not dtype.is_complex and (all(are_complex) or not has_partner):
        return
    changes = {
        tensor.path: _cast(tensor, dtype.to_complex() if is_complex else dtype)
        for tensor, is_complex in zip(floats, are_complex, strict=True)
    }
    if all(tensor.dtype == dtype for tensor in floats) or not all(
        map(is_drawable, changes.values())
    ):
        return
    name = dtype_name(dtype)
    mixed = len({tensor.dtype.to_real() for tensor in floats}) > 1
    yield Step(
        name,
        f"tensors of {name}",
        changes,
        rank,
        reads_beyond=dtype.itemsize < floats[0].dtype.itemsize,
        beyond="dtypes that differ in the sample made equal" if mixed else beyond,
    )


def _cast(tensor: TensorArgument, dtype: torch.dtype) -> TensorSpec:
    """The description in another dtype; listed values are drawn instead where it cannot hold them."""
    spec = tensor.spec
    if spec.values is None:
        return replace(spec, dtype=dtype)
    if dtype.is_complex:
        return replace(spec, dtype=dtype, values=None)
    finite = tensor.listed.isfinite()
    if dtype.is_floating_point or bool(finite.all()):
        return replace(spec, dtype=dtype)
    numbers = tensor.listed[finite].double()  # no integer is NaN
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    return replace(spec, dtype=dtype, values=None, low=low, high=high + 1)


def _listed_floats(view: SampleView) -> Iterator[Step]:
    """The only tensor in each floating-point dtype that the code lists beside its integer dtype."""
    if len(view.tensors) == 1:
        (tensor,) = view.tensors
        for dtype in floats_beside(view.op, tensor.dtype):
            changes = {tensor.path: replace(tensor.spec, dtype=dtype)}
            yield Step(dtype_name(dtype), f"a tensor of {dtype_name(dtype)}", changes, 4)


def _whole(view: SampleView) -> Iterator[Step]:
    """All tensors of an op that gets only integers, in another dtype that holds their range."""
    tensors = [tensor for tensor in view.tensors if tensor.dtype != torch.bool]
    ranges = [range_of(tensor) for tensor in tensors]
    documented = listed_integers(view.op)
    yield from _any_bytes(tensors, documented)
    for dtype in _WHOLE:
        limits = torch.iinfo(dtype)
        if any(
            span is None or span[0] < limits.min or span[1] > limits.max or tensor.dtype == dtype
            for tensor, span in zip(tensors, ranges, strict=True)
        ):
            continue
        changes = {tensor.path: _of_dtype(tensor, dtype) for tensor in tensors}
        if changes:
            name = dtype_name(dtype)
            is_documented = dtype in documented and all(t.dtype in documented for t in tensors)
            rank = 4 if is_documented else 10 if dtype == torch.uint8 else 13
            beyond = None if is_documented else "integers of another dtype"
            yield Step(name, f"tensors of {name}", changes, rank, reads_beyond=True, beyond=beyond)


def _documented_integers(view: SampleView) -> Iterator[Step]:
    """An integer tensor alone in the widest dtype that a docstring lists for it beside its own."""
    for tensor in view.tensors:
        listed = dtypes_of(view.op, base_name(tensor.path))
        wider = [
            dtype
            for dtype in listed
            if not (dtype.is_floating_point or dtype.is_complex)
            and dtype.itemsize > tensor.dtype.itemsize
        ]
        if tensor.holds_positions and tensor.dtype in listed and wider:
            dtype = max(wider, key=lambda each: each.itemsize)
            name = dtype_name(dtype)
            changes = {tensor.path: replace(tensor.spec, dtype=dtype)}
            yield Step(f"{tensor.path}.{name}", f"{tensor.path} of {name}", changes, 4, True)


def _any_bytes(
    tensors: Sequence[TensorArgument], documented: Sequence[torch.dtype]
) -> Iterator[Step]:
    """The only tensor as any bytes, where a docstring lists uint8 and its own dtype, which is wider."""
    if len(tensors) != 1 or not {torch.uint8, tensors[0].dtype} <= {*documented}:
        return
    (tensor,) = tensors
    span = range_of(tensor)
    if span is None or (span[0] >= 0 and span[1] <= torch.iinfo(torch.uint8).max) or tensor.mutated:
        return  # as uint8 its own numbers are tried
    changes = {tensor.path: _of_bytes(tensor)}
    yield Step("uint8", f"{tensor.path} of uint8, with any bytes", changes, 4, True)


def _of_bytes(tensor: TensorArgument) -> TensorSpec:
    """Any bytes, as in images."""
    return TensorSpec(tensor.shape, torch.uint8, low=0, high=256, layout=tensor.spec.layout)


def _of_dtype(tensor: TensorArgument, dtype: torch.dtype) -> TensorSpec:
    """An integer tensor in another dtype, with a range that the dtype can hold."""
    if (
        tensor.spec.values is not None
        or tensor.spec.low is not None
        or tensor.spec.high is not None
    ):
        return replace(tensor.spec, dtype=dtype)
    span = range_of(tensor)
    assert span is not None
    return replace(tensor.spec, dtype=dtype, low=span[0], high=span[1] + 1)
