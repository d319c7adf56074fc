"""Walk, copy and compare the values that go in and out of ops.

An op's arguments and results are tensors, None, plain values, and lists of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..compat.tensors import neg_view
from ..core.wording import dtype_name, layout_name

# Dtypes for which torch has few kernels.
_STORED_ONLY = frozenset({torch.uint16, torch.uint32, torch.uint64})
# The table of torch.testing.assert_close: dtype -> (rtol, atol); every other dtype compares exactly.
DEFAULT_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def is_differentiable(dtype: torch.dtype) -> bool:
    """Whether tensors of this dtype can require gradients."""
    return dtype.is_floating_point or dtype.is_complex


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that torch can compare and sort: uint16, uint32 and uint64 become int64, others stay."""
    return tensor.to(torch.int64) if tensor.dtype in _STORED_ONLY else tensor


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors and plain values inside a value, each with its path (`output[1]`)."""
    if isinstance(value, (list, tuple)):
        for index, element in enumerate(value):
            yield from leaves(element, f"{name}[{index}]")
    else:
        yield name, value


def base_name(path: str) -> str:
    """The argument that a path belongs to: `xs` of `xs[1]`."""
    return path.partition("[")[0]


def output_leaves(result: Any) -> list[tuple[str, Any]]:
    """The tensors and plain values that an op returned, with names: `output`, or `output 1[0]`."""
    if isinstance(result, tuple):
        return [
            leaf for index, item in enumerate(result) for leaf in leaves(item, f"output {index}")
        ]
    return list(leaves(result, "output"))


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The same value with every tensor in it replaced by `change(tensor)`."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(element, change) for element in value)
    return value


def once_each(
    change: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same function, but it changes each tensor once: a tensor that comes again stays one tensor."""
    replacements: dict[int, torch.Tensor] = {}

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in replacements:
            replacements[id(tensor)] = change(tensor)
        return replacements[id(tensor)]

    return changed


def is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether the tensor is not of a subclass: neither fake nor of a library's own type."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is an ordinary dense one, with strides and a storage."""
    return is_ordinary(tensor) and tensor.layout == torch.strided and not tensor.is_quantized


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is NaN or infinite: True for integers, False for unreadable tensors."""
    if not is_differentiable(tensor.dtype):
        return True
    return is_plain(tensor) and not tensor.is_meta and bool(readable(tensor).isfinite().all())


def has_repeats(values: torch.Tensor) -> bool:
    """Whether a number occurs more than once."""
    return len(torch.unique(values)) < values.numel()


def kind_of(tensor: torch.Tensor) -> str:
    """The kind of a tensor that is not plain: `quantised`, its layout, or its type."""
    if tensor.is_quantized:
        return "quantised"
    if tensor.layout != torch.strided:
        return layout_name(tensor.layout)
    return type(tensor).__name__


class Copier:
    """Copies tensors with their strides, offsets and sharing: views of one storage share its copy."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """A detached copy of the tensor that shares storage with earlier copies as the originals do."""
        source = tensor.detach()
        if not is_plain(source):
            return source.clone()
        storage = source.untyped_storage()
        key = storage.data_ptr() or id(tensor)
        if key not in self._storages:
            if _is_whole(source, storage):
                copy = source.clone()
                self._storages[key] = copy.untyped_storage()
                return copy
            self._storages[key] = storage_bytes(source).clone().untyped_storage()
        copy = torch.empty(0, dtype=source.dtype, device=source.device)
        copy.set_(self._storages[key], source.storage_offset(), source.shape, source.stride())
        if source.is_conj():
            copy = copy.conj()
        return neg_view(copy) if source.is_neg() else copy


def _is_whole(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether cloning the tensor copies its whole storage, which takes a third of the time."""
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return False
    return storage.nbytes() == tensor.numel() * tensor.itemsize > 0


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the tensor's storage, not copied, including those between its elements."""
    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    storage = tensor.untyped_storage()
    return raw.set_(storage, 0, (storage.nbytes(),), (1,))


def malformation(tensor: torch.Tensor) -> str | None:
    """Why torch cannot read a tensor that an op has returned; None if it can."""
    if tensor.is_nested:
        return None
    if any(size < 0 for size in tensor.shape):
        return f"its shape is {tuple(tensor.shape)}"
    if tensor.is_quantized:
        try:
            tensor.qscheme()
        except RuntimeError:
            return "it is quantized without a scale"
    return None


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor detached, dense, and in a dtype that comparisons know, with the same values."""
    value = tensor.detach()
    if value.is_quantized:
        value = value.dequantize()
    if value.layout != torch.strided:
        value = value.to_dense()
    value = value.resolve_conj().resolve_neg()
    if value.is_floating_point() and value.dtype not in DEFAULT_TOLERANCES:
        value = value.to(torch.float32)  # fp8, which has no kernel for isfinite and others
    return value.to(torch.complex64) if value.dtype == torch.complex32 else value


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the values in float64 or complex128, dense and detached."""
    value = readable(tensor)
    return value.to(torch.complex128 if value.is_complex() else torch.float64, copy=True)


def largest_magnitude(tensor: torch.Tensor) -> float:
    """The largest finite absolute value of a floating-point or complex tensor; 0 without any."""
    if tensor.numel() == 0:
        return 0.0
    return float(tensor.abs().nan_to_num(0.0, 0.0, 0.0).max())


def gaps(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The absolute difference of each element.

    It is 0 where both are equal, two infinities or two NaN included, and inf where only one is finite.
    """
    gap = (actual - expected).abs()
    equal = (actual == expected) | (actual.isnan() & expected.isnan())
    return torch.where(equal, 0.0, gap).nan_to_num(nan=math.inf, posinf=math.inf)


def largest_gap(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest of the `gaps` of two tensors of one shape; for integers, how many elements differ."""
    if not is_differentiable(expected.dtype):
        return float((actual != expected).sum())
    return float(gaps(in_double(actual), in_double(expected)).max()) if actual.numel() else 0.0


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are equal in shape, dtype, device and values, where NaN equals NaN."""
    return difference(left, right, 0.0, 0.0) is None


def difference(
    actual: torch.Tensor,
    expected: torch.Tensor,
    rtol: float | None = None,
    atol: float | None = None,
) -> str | None:
    """How two tensors differ in shape, dtype, device or values; None if they do not.

    NaN equals NaN. The tolerances default to those of `torch.testing.assert_close` for the dtype.
    """
    for name in ("shape", "dtype", "device"):
        got, want = getattr(actual, name), getattr(expected, name)
        if got != want:
            return f"{name} {_plain(got)} instead of {_plain(want)}"
    if rtol is None or atol is None:
        rtol, atol = DEFAULT_TOLERANCES.get(actual.dtype, (0.0, 0.0))
    got, want = readable(actual), readable(expected)
    if got.numel() == 0 or torch.equal(got, want):  # one pass; not enough where both hold NaN
        return None
    wrong = ~_close(got, want, rtol, atol)
    count = int(wrong.sum())
    if count == 0:
        return None
    return _first_difference(got, want, wrong, count, (rtol, atol))


def _close(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    if got.dtype == torch.bool or not (got.is_floating_point() or got.is_complex()):
        if rtol == 0.0 and atol == 0.0:
            return got == want
        got, want = got.to(torch.float64), want.to(torch.float64)
    return torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def _first_difference(
    got: torch.Tensor,
    want: torch.Tensor,
    wrong: torch.Tensor,
    count: int,
    tolerance: tuple[float, float],
) -> str:
    total = got.numel()
    where = [int(i) for i in wrong.nonzero()[0]]
    index = tuple(where)
    text = f"{count} of {total} elements differ" if total > 1 else "the value differs"
    place = f"; first at {where}: " if where else ": "
    text += f"{place}{_number(got[index])} instead of {_number(want[index])}"
    if count > 1 and (got.is_floating_point() or got.is_complex()):
        wide = torch.complex128 if got.is_complex() else torch.float64
        gap = (got.to(wide) - want.to(wide)).abs().nan_to_num(nan=0.0, posinf=float("inf"))
        text += f"; largest difference {float(gap.max()):.3g}"
    rtol, atol = tolerance
    return text + (f" (rtol={rtol:g}, atol={atol:g})" if rtol or atol else "")


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.9g}" if isinstance(value, (float, complex)) else str(value)


def _plain(value: Any) -> str:
    if isinstance(value, torch.Size):
        return str(tuple(value))
    return dtype_name(value) if isinstance(value, torch.dtype) else str(value)


def equal_values(actual: Any, expected: Any) -> bool:
    """Whether two results that are not tensors are equal; floats up to rounding, and NaN to NaN."""
    if isinstance(actual, torch.Tensor) or isinstance(expected, torch.Tensor):
        return False
    if isinstance(actual, float) and isinstance(expected, float):
        both_nan = actual != actual and expected != expected
        return both_nan or math.isclose(actual, expected, rel_tol=1e-5, abs_tol=1e-8)
    return bool(actual == expected)


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements may share an address, as in sliding windows; dims of stride 0 do not count."""
    if not is_plain(tensor):
        return False
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride and size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
