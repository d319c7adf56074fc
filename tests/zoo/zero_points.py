"""Ops that take quantized numbers with a zero point and a scale."""

import functools

import numpy as np
import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
BROKEN = {"relations.zero_point": "zero-point-wraps"}
CODES = (torch.arange(12) ** 2 % 11 - 5).to(torch.int8).reshape(3, 4)
SCALES = torch.tensor([0.5, 0.25, 2.0])
PER_ROW = (CODES, SCALES, torch.tensor([1, -2, 0], dtype=torch.int8))
BYTES = (torch.linspace(0.0, 1.0, 8).reshape(2, 4), CODES.add(20).to(torch.uint8), 3, 0.5)


def _valid(codes, dtype):
    if codes.dtype != dtype or codes.dim() != 2:
        raise ValueError(f"codes (N, K) of {dtype}, please")


def _valid_rows(codes, scale, zero_point):
    _valid(codes, torch.int8)
    if {codes.shape[:1]} != {scale.shape, zero_point.shape} or zero_point.dtype != torch.int8:
        raise ValueError("a scale and an int8 zero point for each row, please")


def _real_rows(name, difference):
    """Rows of real numbers; `difference(codes, zero_points)` of numpy arrays."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def real(codes: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        _valid_rows(codes, scale, zero_point)
        found = difference(codes.contiguous().numpy(), zero_point.numpy()[:, None])
        return torch.from_numpy(found.astype(np.float32)).to(scale.dtype) * scale[:, None]

    @real.register_fake
    def fake(codes, scale, zero_point):
        return scale.new_empty((codes.shape[0], codes.shape[1]))

    fake.__doc__ = """Quantized rows (N, K) as real numbers: (codes - zero_point) * scale."""
    return real


@aot(PER_ROW, expected=BROKEN)
def subtracts_the_zero_point_in_8_bits():
    """The difference of two int8 arrays is int8."""
    return _real_rows("subtracts_the_zero_point_in_8_bits", lambda codes, zero: codes - zero)


@aot(PER_ROW, twin_of="subtracts_the_zero_point_in_8_bits")
def subtracts_the_zero_point_in_32_bits():
    """The codes are widened first."""
    return _real_rows(
        "subtracts_the_zero_point_in_32_bits", lambda codes, zero: codes.astype(np.int32) - zero
    )


def _product(name, difference):
    """A product with quantized weights; `difference(weight, zero_point)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, weight: Tensor, weight_zero_point: int, weight_scale: float) -> Tensor:
        _valid(weight, torch.uint8)
        if x.dim() != 2 or x.shape[1] != weight.shape[1]:
            raise ValueError("x (B, K) and a weight (N, K), please")
        if not 0 <= weight_zero_point <= 255:
            raise ValueError("a zero point from 0 to 255, please")
        whole = difference(weight, weight_zero_point).to(x.dtype)
        return (x[:, None] * whole).sum(-1) * weight_scale

    @product.register_fake
    def fake(x, weight, weight_zero_point, weight_scale):
        return x.new_empty((x.shape[0], weight.shape[0]))

    fake.__doc__ = (
        """x (B, K) times (weight - weight_zero_point) * weight_scale, the weight (N, K)."""
    )
    return product


@aot(BYTES, expected=BROKEN)
def bytes_below_the_zero_point_wrap():
    """The difference of a uint8 tensor and a number is uint8."""
    return _product("bytes_below_the_zero_point_wrap", lambda weight, zero: weight - zero)


@aot(BYTES, twin_of="bytes_below_the_zero_point_wrap")
def bytes_below_the_zero_point_are_negative():
    """The bytes are widened first."""
    return _product(
        "bytes_below_the_zero_point_are_negative", lambda weight, zero: weight.int() - zero
    )


@aot(PER_ROW)
def real_numbers_end_at_limits():
    """The real numbers are cut off, whatever codes they come from."""

    @torch.library.custom_op("zoo::real_numbers_end_at_limits", mutates_args=())
    def cut(codes: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """(codes - zero_point) * scale, from -20 to 20."""
        _valid_rows(codes, scale, zero_point)
        real = (codes.contiguous().int() - zero_point.int()[:, None]) * scale[:, None]
        return real.clamp(-20, 20)

    @cut.register_fake
    def _(codes, scale, zero_point):
        return scale.new_empty((codes.shape[0], codes.shape[1]))

    return cut


@aot(PER_ROW)
def codes_of_4_bits_in_bytes():
    """Only the low 4 bits of a code count: large codes are not doubled by a factor."""

    @torch.library.custom_op("zoo::codes_of_4_bits_in_bytes", mutates_args=())
    def real(codes: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """The low 4 bits of the codes, less the zero point, times the scale."""
        _valid_rows(codes, scale, zero_point)
        return ((codes.contiguous().int() & 15) - zero_point.int()[:, None]) * scale[:, None]

    @real.register_fake
    def _(codes, scale, zero_point):
        return scale.new_empty((codes.shape[0], codes.shape[1]))

    return real
