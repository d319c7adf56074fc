"""Ops with numpy inside in which a number overflows on the way to the result, or wraps on purpose."""

import functools

import numpy as np
import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
OVERFLOWS = {"relations.overflow": "intermediate-overflow"}
PICTURES = (torch.arange(60).mul(89).remainder(256).to(torch.uint8).reshape(2, 5, 6),)
CODES = ((torch.arange(24).mul(53).remainder(255) - 127).to(torch.int8).reshape(4, 6),)


def _of_pictures(name, kernel, dtype, about):
    """Two pictures to one; `kernel` takes numpy arrays."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(pictures: Tensor) -> Tensor:
        if pictures.dim() != 3 or pictures.shape[0] != 2 or pictures.dtype != torch.uint8:
            raise ValueError("two pictures (2, H, W) of uint8, please")
        return torch.from_numpy(np.ascontiguousarray(kernel(*pictures.numpy()))).to(
            dtype, copy=True
        )

    @op.register_fake
    def fake(pictures):
        return pictures.new_empty((pictures.shape[1], pictures.shape[2]), dtype=dtype)

    fake.__doc__ = f"""{about} Two pictures (2, H, W) of uint8."""
    return op


@aot(PICTURES, expected=OVERFLOWS)
def mean_of_two_bytes():
    """The sum of two bytes wraps before it is halved."""
    return _of_pictures(
        "mean_of_two_bytes", lambda a, b: (a + b) // 2, torch.uint8, "The mean, rounded down."
    )


@aot(PICTURES, twin_of="mean_of_two_bytes")
def mean_of_two_wide_numbers():
    """The bytes are widened first."""
    return _of_pictures(
        "mean_of_two_wide_numbers",
        lambda a, b: (a.astype(np.int16) + b) // 2,
        torch.uint8,
        "The mean, rounded down.",
    )


@aot(PICTURES)
def bytes_less_those_above():
    """What a filter for compression leaves is taken modulo 256."""
    return _of_pictures(
        "bytes_less_those_above",
        lambda a, b: a - b,
        torch.uint8,
        "The difference modulo 256, from which the first can be restored.",
    )


def _of_codes(name, kernel):
    """Rows of int8 to their scalar products; `kernel` takes a numpy array."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def products(codes: Tensor) -> Tensor:
        """The scalar product (N, N) of each row of codes (N, K), int8, with each."""
        if codes.dim() != 2 or codes.dtype != torch.int8:
            raise ValueError("codes (N, K) of int8, please")
        return torch.from_numpy(kernel(codes.numpy()).astype(np.int32))

    @products.register_fake
    def _(codes):
        return codes.new_empty((codes.shape[0], codes.shape[0]), dtype=torch.int32)

    return products


@aot(CODES, expected=OVERFLOWS | {"relations.integer_width": "integer-overflow"})
def products_in_16_bits():
    """einsum adds up in the dtype of its operands."""
    return _of_codes(
        "products_in_16_bits",
        lambda codes: np.einsum("nk,mk->nm", codes.astype(np.int16), codes.astype(np.int16)),
    )


@aot(CODES, twin_of="products_in_16_bits")
def products_in_32_bits():
    """The operands have the bits that the sums need."""
    return _of_codes(
        "products_in_32_bits",
        lambda codes: np.einsum("nk,mk->nm", codes.astype(np.int32), codes.astype(np.int32)),
    )
