"""torchao: affine and float8 quantisation."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("torchao")
pytest.importorskip("torchao.quantization.quant_primitives")

OPS = torch.ops.torchao
LAYOUTS = ["contiguous", "transposed"]


@customop_cases(
    OPS.quantize_affine_float8_non_decomposed,
    [
        (tensor(4, 8), tensor(4, 1, low=0.5, high=2)),
        (tensor(4, 8), tensor(1, 1, low=0.5, high=2), torch.float8_e5m2),
    ],
    dtypes=[torch.float32],
    layouts=LAYOUTS,
)
def test_quantize_affine_float8(): ...


@customop_cases(
    OPS.dequantize_affine_float8_non_decomposed,
    [
        (tensor(4, 8, dtype=torch.float8_e4m3fn), tensor(4, 1, low=0.5, high=2)),
        (
            tensor(4, 8, dtype=torch.float8_e4m3fn),
            tensor(1, 1, low=0.5, high=2),
            torch.bfloat16,
        ),
    ],
    layouts=LAYOUTS,
)
def test_dequantize_affine_float8(): ...


@customop_cases(
    OPS.choose_qparams_affine,
    [
        (tensor(3, 8), "SYMMETRIC", [1, 4], torch.int8),
        (tensor(3, 8), "ASYMMETRIC", [1, 4], torch.uint8),
    ],
    dtypes=[torch.float32],
    layouts=LAYOUTS,
)
def test_choose_qparams_affine(): ...


@customop_cases(
    OPS.quantize_affine,
    [
        (
            tensor(4, 8),
            [1, 8],
            tensor(4, low=0.5, high=1),
            tensor(4, dtype=torch.int64, low=-5, high=5),
            torch.int8,
        )
    ],
    dtypes=[torch.float32],
    layouts=LAYOUTS,
)
def test_quantize_affine(): ...


@customop_cases(
    OPS.dequantize_affine,
    [
        (
            tensor(4, 8, dtype=torch.int8),
            [1, 8],
            tensor(4, dtype=torch.float32, low=0.5, high=1),
            tensor(4, dtype=torch.int64, low=-5, high=5),
            torch.int8,
        )
    ],
    layouts=LAYOUTS,
)
def test_dequantize_affine(): ...


@customop_cases(
    OPS.choose_scale_float8,
    [(tensor(3, 8), [1, 4])],
    dtypes=[torch.float32],
    layouts=LAYOUTS,
)
def test_choose_scale_float8(): ...
