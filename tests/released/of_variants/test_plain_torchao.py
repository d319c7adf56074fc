"""torchao: a plain example an op, as its own tests have it."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("torchao")
pytest.importorskip("torchao.quantization.quant_primitives")

OPS = torch.ops.torchao


def scale(*shape):
    """Scales of blocks."""
    return tensor(*shape, dtype=torch.float32, low=0.5, high=2)


@customop_cases(OPS.quantize_affine_float8_non_decomposed, [(tensor(16, 32), scale(16, 1))])
def test_quantize_affine_float8(): ...


@customop_cases(
    OPS.dequantize_affine_float8_non_decomposed,
    [(tensor(16, 32, dtype=torch.float8_e4m3fn), scale(16, 1))],
)
def test_dequantize_affine_float8(): ...


@customop_cases(OPS.choose_qparams_affine, [(tensor(16, 32), "SYMMETRIC", [1, 16], torch.int8)])
def test_choose_qparams_affine(): ...


@customop_cases(
    OPS.quantize_affine,
    [
        (
            tensor(16, 32),
            [1, 32],
            scale(16),
            tensor(16, dtype=torch.int64, low=-5, high=5),
            torch.int8,
        )
    ],
)
def test_quantize_affine(): ...


@customop_cases(
    OPS.dequantize_affine,
    [
        (
            tensor(16, 32, dtype=torch.int8, low=-128, high=128),
            [1, 32],
            scale(16),
            tensor(16, dtype=torch.int64, low=-5, high=5),
            torch.int8,
        )
    ],
)
def test_dequantize_affine(): ...


@customop_cases(OPS.choose_scale_float8, [(tensor(16, 32), [1, 16])])
def test_choose_scale_float8(): ...
