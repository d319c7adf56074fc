"""Ops in the style of quantisation libraries."""

import torch
from torch import Tensor


@torch.library.custom_op("scanned::quantize_rows", mutates_args=())
def quantize_rows(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    if x.dim() != 2:
        raise ValueError(f"expected a 2-D tensor, got {x.dim()}-D")
    if bits not in (4, 8):
        raise ValueError("bits must be 4 or 8")
    limit = 2 ** (bits - 1) - 1
    scale = x.abs().amax(1).clamp(min=1e-12) / limit
    return (x / scale[:, None]).round().to(torch.int8), scale.float()


@quantize_rows.register_fake
def _(x, bits):
    scale = x.new_empty(x.shape[0], dtype=torch.float32)
    return x.new_empty(x.shape, dtype=torch.int8), scale


@torch.library.custom_op("scanned::dequantize_rows", mutates_args=())
def dequantize_rows(values: Tensor, scale: Tensor) -> Tensor:
    if values.dtype != torch.int8:
        raise TypeError(f"values must be int8, not {values.dtype}")
    if scale.shape != values.shape[:1]:
        raise ValueError("one scale a row is needed")
    return values.to(scale.dtype) * scale[:, None].expand_as(values)


@dequantize_rows.register_fake
def _(values, scale):
    return torch.empty_like(values)  # planted: int8, where the real one has the dtype of scale


@torch.library.custom_op("scanned::quantize_blocks", mutates_args=())
def quantize_blocks(x: Tensor, blocksize: int, quant_type: str) -> tuple[Tensor, Tensor]:
    if quant_type not in ("nf4", "fp4"):
        raise ValueError(f"quant_type is {quant_type!r}")
    if blocksize not in (16, 32, 64):
        raise ValueError(f"blocksize {blocksize} is not supported")
    if x.numel() % blocksize:
        raise ValueError(f"the number of elements must be divisible by blocksize {blocksize}")
    blocks = x.reshape(-1, blocksize).float()
    absmax = blocks.abs().amax(1)
    codes = (blocks / absmax.clamp(min=1e-12)[:, None] * 7 + 7).round().to(torch.uint8).flatten()
    return codes[::2] * 16 + codes[1::2], absmax


@quantize_blocks.register_fake
def _(x, blocksize, quant_type):
    count = x.numel()
    packed = x.new_empty(count // 2, dtype=torch.uint8)
    return packed, x.new_empty(count // blocksize, dtype=torch.float32)


@torch.library.custom_op("scanned::pack_int4", mutates_args=())
def pack_int4(x: Tensor) -> Tensor:
    assert x.dtype == torch.uint8, "x must be uint8"
    assert x.shape[-1] % 8 == 0, "last dim must be a multiple of 8"
    low, high = x[..., ::2], x[..., 1::2]
    return low.bitwise_and(15) | high.bitwise_and(15) << 4


@pack_int4.register_fake
def _(x):
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.custom_op("scanned::scaled_mm", mutates_args=())
def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out_dtype: torch.dtype
) -> Tensor:
    if a.dtype != torch.int8 or b.dtype != torch.int8:
        raise TypeError("a and b must be torch.int8")
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError("shapes do not match")
    if scale_a.shape != (a.shape[0], 1) or scale_b.shape != (1, b.shape[1]):
        raise ValueError("scale_a must be (M, 1) and scale_b (1, N)")
    if out_dtype not in (torch.float32, torch.bfloat16):
        raise ValueError("out_dtype must be float32 or bfloat16")
    return (a.float() @ b.float() * scale_a * scale_b).to(out_dtype)


@scaled_mm.register_fake
def _(a, b, scale_a, scale_b, out_dtype):
    return a.new_empty(a.shape[0], b.shape[1], dtype=out_dtype)
