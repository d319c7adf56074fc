"""bitsandbytes: 8-bit and 4-bit quantisation, int8 products and optimizers, with its CPU kernels."""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

functional = pytest.importorskip("bitsandbytes.functional")

OPS = torch.ops.bitsandbytes
LAYOUTS = ["contiguous", "transposed"]
CODE = functional.create_dynamic_map()
UNSIGNED = functional.create_dynamic_map(signed=False)
WEIGHT = torch.linspace(-2, 2, 32 * 64).reshape(32, 64)
NF4, NF4_ABSMAX = OPS.quantize_4bit(WEIGHT, 64, "nf4", torch.uint8)


def int8(*shape):
    """An int8 tensor."""
    return tensor(*shape, dtype=torch.int8, low=-128, high=127)


def stats(size):
    """The float32 scales of rows or columns."""
    return tensor(size, dtype=torch.float32, low=0.5, high=2)


@customop_cases(
    OPS.quantize_blockwise,
    [
        Sample((tensor(16, 48, dtype=torch.float32), CODE, 64), id="float32"),
        Sample((tensor(16, 48, dtype=torch.bfloat16), CODE, 64), id="bfloat16"),
    ],
    layouts=LAYOUTS,
)
def test_quantize_blockwise(): ...


@customop_cases(
    OPS.dequantize_blockwise.default,
    [(tensor(16, 48, dtype=torch.uint8, low=0, high=255), stats(12), CODE, 64, torch.float32)],
    layouts=LAYOUTS,
)
def test_dequantize_blockwise(): ...


@customop_cases(
    OPS.quantize_4bit,
    [(tensor(16, 48), 64, "nf4", torch.uint8), (tensor(16, 48), 64, "fp4", torch.bfloat16)],
    dtypes=[torch.float32, torch.bfloat16],
    layouts=LAYOUTS,
)
def test_quantize_4bit(): ...


@customop_cases(
    OPS.dequantize_4bit.default,
    [
        (NF4, NF4_ABSMAX, 64, "nf4", [32, 64], torch.float32),
        (NF4, NF4_ABSMAX, 64, "fp4", [32, 64], torch.bfloat16),
        Sample((NF4, NF4_ABSMAX, 64, "nf4", [2048], torch.float32), id="one_dim"),
    ],
)
def test_dequantize_4bit(): ...


@customop_cases(
    OPS.gemm_4bit,
    [
        (tensor(3, 64, dtype=torch.float32), NF4, [32, 64], NF4_ABSMAX, 64, "nf4"),
        (tensor(3, 64, dtype=torch.bfloat16), NF4, [32, 64], NF4_ABSMAX, 64, "nf4"),
    ],
)
def test_gemm_4bit(): ...


@customop_cases(
    OPS.gemv_4bit.default,
    [
        (
            tensor(1, 64, dtype=torch.float32),
            NF4,
            [32, 64],
            NF4_ABSMAX,
            functional.get_4bit_type("nf4", "cpu"),
            64,
        )
    ],
)
def test_gemv_4bit(): ...


@customop_cases(OPS.int8_linear_matmul.default, [(int8(10, 20), int8(30, 20))], layouts=LAYOUTS)
def test_int8_linear_matmul(): ...


@customop_cases(
    OPS.int8_linear_matmul.out,
    [(int8(10, 20), int8(30, 20), tensor(10, 30, dtype=torch.int32, fill=0))],
    layouts=LAYOUTS,
)
def test_int8_linear_matmul_out(): ...


@customop_cases(
    OPS.int8_vectorwise_quant,
    [Sample((tensor(10, 20),), id="plain"), Sample((tensor(10, 20), 6.0), id="outliers")],
    dtypes=[torch.float16],
)
def test_int8_vectorwise_quant(): ...


@customop_cases(OPS.int8_vectorwise_dequant, [(int8(10, 20), stats(10))], layouts=LAYOUTS)
def test_int8_vectorwise_dequant(): ...


@customop_cases(
    OPS.int8_mm_dequant,
    [
        (tensor(10, 30, dtype=torch.int32, low=-999, high=999), stats(10), stats(30)),
        Sample(
            (tensor(2, 5, 30, dtype=torch.int32, low=-999, high=999), stats(10), stats(30)),
            id="batched",
        ),
    ],
)
def test_int8_mm_dequant(): ...


@customop_cases(
    OPS.int8_scaled_mm,
    [
        (int8(10, 20), int8(30, 20), stats(10), stats(30)),
        (int8(10, 20), int8(30, 20), stats(10), stats(30), tensor(30), torch.float32),
        Sample((int8(2, 5, 20), int8(30, 20), stats(10), stats(30)), id="batched"),
    ],
)
def test_int8_scaled_mm(): ...


@customop_cases(
    OPS.int8_mixed_scaled_mm,
    [
        Sample(
            (tensor(10, 20), int8(10, 20), int8(30, 20), stats(10), stats(30)), id="no_outliers"
        ),
        Sample(
            (
                tensor(10, 20),
                int8(10, 20),
                int8(30, 20),
                stats(10),
                stats(30),
                torch.tensor([3, 7]),
            ),
            id="outliers",
        ),
    ],
    dtypes=[torch.float16],
    requires_grad=False,
)
def test_int8_mixed_scaled_mm(): ...


def update_32bit(device, dtype, requires_grad):
    """One step of an optimizer with 32-bit state."""
    del device, requires_grad
    for name in ("adam", "momentum", "lion"):
        second = tensor(8, 6, low=0, high=1, dtype=torch.float32) if name == "adam" else None
        states = (tensor(8, 6, dtype=torch.float32), second)
        numbers = (0.0, 0.0, 0.9, 0.999, 0.0, 0.0, 1e-8, 0.01, 2, 1e-3, 1.0)
        yield Sample(
            (name, tensor(8, 6, dtype=dtype), tensor(8, 6, dtype=dtype), *states, None, *numbers),
            id=name,
        )


@customop_cases(
    OPS.optimizer_update_32bit, update_32bit, dtypes=[torch.float32], requires_grad=False
)
def test_optimizer_update_32bit(): ...


def update_8bit(device, dtype, requires_grad):
    """One step of an optimizer with 8-bit state."""
    del device, requires_grad
    state = tensor(256, dtype=torch.uint8, low=100, high=200)
    for name in ("adam", "momentum"):
        adam = name == "adam"
        yield Sample(
            (
                name,
                tensor(256, dtype=dtype),
                tensor(256, dtype=dtype),
                state,
                state if adam else None,
                *(0.9, 0.999, 0.0, 0.0, 1e-8, 2, 1e-3),
                CODE,
                UNSIGNED if adam else None,
                stats(1),
                stats(1) if adam else None,
                *(0.01, 1.0),
            ),
            id=name,
        )


@customop_cases(
    OPS.optimizer_update_8bit_blockwise, update_8bit, dtypes=[torch.float32], requires_grad=False
)
def test_optimizer_update_8bit_blockwise(): ...
