"""Ops that compute the offsets of rows in 32 bits."""

import ctypes
import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
MATRIX = tensor(4, 5)


def _in_64(number):
    return number


def _in_32(number):
    return ctypes.c_int32(number).value


def _row(x, offset):
    """The row of a matrix that begins so many elements behind the first one, read by address."""
    memory = ctypes.string_at(x.data_ptr() + offset * x.itemsize, x.shape[1] * x.itemsize)
    return torch.frombuffer(bytearray(memory), dtype=x.dtype)


def _with_dense_rows(x):
    x = x.detach().resolve_conj().resolve_neg()
    return x if x.stride(1) == 1 or not x.numel() else x.contiguous()


def _added_rows(x, stride=_in_64, offset=_in_64):
    """The sum of the rows, at offsets computed from a stride by these two functions."""
    x = _with_dense_rows(x)
    step = stride(x.stride(0))
    total = x.new_zeros(x.shape[1])
    for row in range(x.shape[0] if x.shape[1] else 0):
        total += _row(x, offset(row * step))
    return total


def _op(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def added(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("expected a matrix")
        return kernel(x)

    @added.register_fake
    def _(x):
        if x.dim() != 2:
            raise ValueError("expected a matrix")
        return x.new_empty(x.shape[1])

    return added


@aot((MATRIX,), expected={"values.wide_strides": "offset-overflow"})
def row_offset_in_32_bits():
    """Multiplies the number of a row by the stride in 32 bits."""
    return _op("row_offset_in_32_bits", lambda x: _added_rows(x, offset=_in_32))


@aot((MATRIX,), expected={"values.wide_strides": "offset-overflow"})
def row_stride_in_32_bits():
    """Keeps the stride in 32 bits, and computes offsets in 64."""
    return _op("row_stride_in_32_bits", lambda x: _added_rows(x, stride=_in_32))


@aot((MATRIX,), twin_of=("row_offset_in_32_bits", "row_stride_in_32_bits"))
def row_offset_in_64_bits():
    """Computes the offsets of rows in 64 bits."""
    return _op("row_offset_in_64_bits", _added_rows)


@aot((MATRIX,), twin_of=("row_offset_in_32_bits", "row_stride_in_32_bits"))
def copies_wide_rows():
    """Computes offsets in 32 bits, in a contiguous copy where they do not hold them."""

    def kernel(x):
        reach = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        return _added_rows(x.contiguous() if reach >= 2**31 else x, _in_32, _in_32)

    return _op("copies_wide_rows", kernel)


@aot((MATRIX,), twin_of=("row_offset_in_32_bits", "row_stride_in_32_bits"))
def rejects_wide_rows():
    """Computes offsets in 32 bits, and raises where they do not hold them."""

    def kernel(x):
        reach = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        if reach >= 2**31:
            raise ValueError("the tensor reaches over more than 2**31 elements")
        return _added_rows(x, _in_32, _in_32)

    return _op("rejects_wide_rows", kernel)


def _written(name, offset):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=("x",))
    def cleared(x: Tensor, value: float) -> None:
        if x.dim() != 2 or (x.numel() and x.stride(1) != 1) or x.is_complex() or x.is_neg():
            raise ValueError("expected a matrix of real numbers with dense rows")
        row = torch.full((x.shape[1],), value, dtype=x.dtype)
        for number in range(x.shape[0] if x.shape[1] else 0):
            place = x.data_ptr() + offset(number * x.stride(0)) * x.itemsize
            ctypes.memmove(place, row.data_ptr(), row.numel() * row.itemsize)

    cleared.register_fake(lambda x, value: None)
    return cleared


@aot((MATRIX, 2.5), expected={"values.wide_strides": "offset-overflow"})
def written_row_in_32_bits():
    """Writes to rows at offsets in 32 bits."""
    return _written("written_row_in_32_bits", _in_32)


@aot((MATRIX, 2.5), twin_of="written_row_in_32_bits")
def written_row_in_64_bits():
    """Writes to rows at offsets in 64 bits."""
    return _written("written_row_in_64_bits", _in_64)


def _differentiable(name, offset):
    """The doubled matrix. Forward and backward read the rows by address."""

    def twice(x, offset):
        dense = _with_dense_rows(x)
        out = torch.empty(x.shape, dtype=x.dtype)
        for row in range(dense.shape[0] if dense.shape[1] else 0):
            out[row] = _row(dense, offset(row * dense.stride(0))) * 2
        return out

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return twice(x, _in_64)

    @torch.library.custom_op(f"zoo::{name}_backward", mutates_args=())
    def backward(grad: Tensor) -> Tensor:
        return twice(grad, offset)

    doubled.register_fake(lambda x: x.new_empty(x.shape))
    backward.register_fake(lambda grad: grad.new_empty(grad.shape))
    backward.register_autograd(lambda ctx, grad: doubled(grad))
    doubled.register_autograd(lambda ctx, grad: backward(grad))
    return doubled


@specimen((MATRIX,), backend="aot_eager", expected={"values.wide_strides": "offset-overflow"})
def gradient_rows_in_32_bits():
    """Its backward computes the offsets of the rows of grad_output in 32 bits."""
    return _differentiable("gradient_rows_in_32_bits", _in_32)


@specimen((MATRIX,), backend="aot_eager", twin_of="gradient_rows_in_32_bits")
def gradient_rows_in_64_bits():
    """Its backward computes the offsets of the rows of grad_output in 64 bits."""
    return _differentiable("gradient_rows_in_64_bits", _in_64)
