"""Ops that quantize, for which numbers of one sign are as usual as those of both, or are not."""

import functools
from typing import Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
ONE_SIGN = {"relations.one_sign": "one-sign-not-reproduced"}
ROWS = (tensor(4, 16),)


def _codes(x, low, high):
    """8-bit codes of rows, their scales and their zero points."""
    scale = ((high - low) / 255).clamp(min=torch.finfo(x.dtype).tiny)
    zero = (-low / scale).round().clamp(0, 255)
    return (x / scale + zero).round().clamp(0, 255), scale, zero


def _ends(x):
    return x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)


def _ends_and_zero(x):
    low, high = _ends(x)
    return low.clamp(max=0), high.clamp(min=0)


def _there_and_back(name, ends):
    """Rows as multiples of a scale, with a zero point; `ends(x)` is the range of each row."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantized(x: Tensor) -> Tensor:
        """Quantizes each row to 8 bits with a zero point, and back."""
        if x.dim() < 1 or x.shape[-1] == 0:
            raise ValueError("rows, please")
        codes, scale, zero = _codes(x, *ends(x))
        return ((codes - zero) * scale).contiguous()

    quantized.register_fake(lambda x: x.new_empty(x.shape))
    return quantized


@aot(ROWS, expected=ONE_SIGN)
def range_without_zero():
    """The zero point of a row of positive numbers is cut off."""
    return _there_and_back("range_without_zero", _ends)


@aot(ROWS, twin_of="range_without_zero")
def range_with_zero():
    """The range of each row includes 0."""
    return _there_and_back("range_with_zero", _ends_and_zero)


def _to_codes(name, ends):
    """The codes of rows with a scale and a zero point each."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantized(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Quantizes each row to uint8, with its scale and zero point."""
        if x.dim() != 2 or x.shape[-1] == 0:
            raise ValueError("rows, please")
        codes, scale, zero = _codes(x, *ends(x))
        return codes.to(torch.uint8).contiguous(), scale[:, 0].clone(), zero[:, 0].to(torch.int32)

    @quantized.register_fake
    def _(x):
        rows = x.shape[0]
        return (
            x.new_empty(x.shape, dtype=torch.uint8),
            x.new_empty(rows),
            x.new_empty(rows, dtype=torch.int32),
        )

    return quantized


@aot(ROWS, expected=ONE_SIGN)
def codes_of_a_range_without_zero():
    """The same as codes."""
    return _to_codes("codes_of_a_range_without_zero", _ends)


@aot(ROWS, twin_of="codes_of_a_range_without_zero")
def codes_of_a_range_with_zero():
    """The range of each row includes 0."""
    return _to_codes("codes_of_a_range_with_zero", _ends_and_zero)


@aot(ROWS)
def quantized_on_a_fixed_grid():
    """Correct: the grid ends at 4, for numbers of both signs too."""

    @torch.library.custom_op("zoo::quantized_on_a_fixed_grid", mutates_args=())
    def quantized(x: Tensor) -> Tensor:
        """Quantized to multiples of 1/32 between -4 and 4."""
        return ((x * 32).round() / 32).clamp(-4, 4).contiguous()

    quantized.register_fake(lambda x: x.new_empty(x.shape))
    return quantized
