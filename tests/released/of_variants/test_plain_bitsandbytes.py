"""bitsandbytes: a plain example an op, as its own tests have it."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

functional = pytest.importorskip("bitsandbytes.functional")

OPS = torch.ops.bitsandbytes
CODE = functional.create_dynamic_map()
WEIGHT = torch.linspace(-2, 2, 32 * 64).reshape(32, 64)
NF4, NF4_ABSMAX = OPS.quantize_4bit(WEIGHT, 64, "nf4", torch.uint8)


def int8(*shape):
    """An int8 tensor."""
    return tensor(*shape, dtype=torch.int8, low=-128, high=128)


def stats(size):
    """The float32 scales of rows or columns."""
    return tensor(size, dtype=torch.float32, low=0.5, high=2)


@customop_cases(OPS.quantize_blockwise, [(tensor(32, 64), CODE, 64)])
def test_quantize_blockwise(): ...


def scaled(variant):
    """The number of scales is not looked at: what is read past their end depends on the memory."""
    return "the scales do not fit" if variant.step == "odd" else None


@customop_cases(
    OPS.dequantize_blockwise.default,
    [(tensor(32, 64, dtype=torch.uint8, low=0, high=256), stats(32), CODE, 64, torch.float32)],
    variants=scaled,
)
def test_dequantize_blockwise(): ...


@customop_cases(OPS.quantize_4bit, [(tensor(32, 64), 64, "nf4", torch.uint8)])
def test_quantize_4bit(): ...


@customop_cases(
    OPS.dequantize_4bit.default, [(NF4, NF4_ABSMAX, 64, "nf4", [32, 64], torch.float32)]
)
def test_dequantize_4bit(): ...


@customop_cases(OPS.gemm_4bit, [(tensor(3, 64), NF4, [32, 64], NF4_ABSMAX, 64, "nf4")])
def test_gemm_4bit(): ...


@customop_cases(
    OPS.gemv_4bit.default,
    [(tensor(1, 64), NF4, [32, 64], NF4_ABSMAX, functional.get_4bit_type("nf4", "cpu"), 64)],
)
def test_gemv_4bit(): ...


@customop_cases(OPS.int8_linear_matmul.default, [(int8(10, 20), int8(30, 20))])
def test_int8_linear_matmul(): ...


@customop_cases(
    OPS.int8_linear_matmul.out,
    [(int8(10, 20), int8(30, 20), tensor(10, 30, dtype=torch.int32, fill=0))],
)
def test_int8_linear_matmul_out(): ...


@customop_cases(
    OPS.int8_vectorwise_quant, [(tensor(10, 20, dtype=torch.float16),)], requires_grad=False
)
def test_int8_vectorwise_quant(): ...


@customop_cases(OPS.int8_vectorwise_dequant, [(int8(10, 20), stats(10))])
def test_int8_vectorwise_dequant(): ...


@customop_cases(
    OPS.int8_mm_dequant,
    [(tensor(10, 30, dtype=torch.int32, low=-999, high=999), stats(10), stats(30))],
)
def test_int8_mm_dequant(): ...


@customop_cases(OPS.int8_scaled_mm, [(int8(10, 20), int8(30, 20), stats(10), stats(30))])
def test_int8_scaled_mm(): ...
