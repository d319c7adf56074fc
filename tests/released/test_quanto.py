"""optimum-quanto: quantised weights and activations."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("optimum.quanto")

OPS = torch.ops.quanto
LAYOUTS = ["contiguous", "transposed"]


@customop_cases(
    OPS.quantize_symmetric,
    [
        (tensor(4, 6), torch.int8, None, torch.tensor(0.1)),
        (tensor(4, 6), torch.int8, 0, tensor(4, 1, low=0.1, high=0.2)),
        (tensor(4, 6), torch.int8, -1, tensor(1, 6, low=0.1, high=0.2)),
        (tensor(4, 6), torch.float8_e4m3fn, None, torch.tensor(0.1)),
    ],
    layouts=LAYOUTS,
)
def test_quantize_symmetric(): ...


@customop_cases(
    OPS.quantize_affine,
    [
        (
            tensor(4, 8),
            4,
            0,
            None,
            tensor(4, 1, low=0.5, high=1),
            tensor(4, 1, low=5, high=8),
        ),
        (
            tensor(8, 8),
            4,
            0,
            4,
            tensor(16, 1, low=0.5, high=1),
            tensor(16, 1, low=5, high=8, dtype=torch.int8),
        ),
        (
            tensor(8, 8),
            2,
            -1,
            4,
            tensor(1, 16, low=0.5, high=1),
            tensor(1, 16, low=5, high=8),
        ),
    ],
    layouts=LAYOUTS,
)
def test_quantize_affine(): ...


# In bfloat16, which checks of a float32 case try too, torch._weight_int8pack_mm reads out of bounds for
# rows that are no multiple of 16.
@customop_cases(
    OPS.qbytes_mm,
    [
        (tensor(3, 16), tensor(4, 16, dtype=torch.int8, low=-9, high=9), tensor(4, 1)),
        (tensor(2, 3, 16), tensor(4, 16, dtype=torch.int8, low=-9, high=9), tensor(4, 1)),
        (
            tensor(24, 8, dtype=torch.int8, low=-9, high=9),
            tensor(8, 8, dtype=torch.int8, low=-9, high=9),
            tensor(8, 1),
        ),
    ],
    layouts=LAYOUTS,
)
def test_qbytes_mm(): ...


# Strided scales are read past their end by torch._weight_int8pack_mm, which it calls in bfloat16.
@customop_cases(
    OPS.qbytes_mm,
    [
        (
            tensor(3, 16, dtype=torch.bfloat16),
            tensor(4, 16, dtype=torch.int8, low=-9, high=9),
            tensor(4, 1, dtype=torch.bfloat16),
        )
    ],
    checks=["-values"],
)
def test_qbytes_mm_bfloat16(): ...


@customop_cases(
    OPS.unpack,
    [
        (tensor(4, 6, dtype=torch.uint8, low=0, high=255), 4),
        (tensor(4, 6, dtype=torch.uint8, low=0, high=255), 2),
    ],
    layouts=LAYOUTS,
)
def test_unpack(): ...
