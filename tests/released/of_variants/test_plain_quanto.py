"""optimum-quanto: a plain example an op, as its own tests have it."""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

pytest.importorskip("optimum.quanto")

OPS = torch.ops.quanto


def int8(*shape):
    """A quantised tensor."""
    return tensor(*shape, dtype=torch.int8, low=-127, high=128)


@customop_cases(
    OPS.quantize_symmetric,
    [
        Sample((tensor(32, 32), torch.int8, None, torch.tensor(0.1)), id="tensor"),
        Sample((tensor(32, 32), torch.int8, 0, tensor(32, 1, low=0.1, high=0.2)), id="axis"),
    ],
)
def test_quantize_symmetric(): ...


@customop_cases(
    OPS.quantize_affine,
    [
        Sample(
            (
                tensor(32, 32),
                4,
                0,
                None,
                tensor(32, 1, low=0.5, high=1),
                tensor(32, 1, low=5, high=8),
            ),
            id="axis",
        ),
        Sample(
            (
                tensor(32, 32),
                4,
                0,
                16,
                tensor(64, 1, low=0.5, high=1),
                tensor(64, 1, low=5, high=8, dtype=torch.int8),
            ),
            id="groups",
        ),
    ],
)
def test_quantize_affine(): ...


@customop_cases(OPS.qbytes_mm, [(tensor(16, 32), int8(24, 32), tensor(24, 1))])
def test_qbytes_mm(): ...


@customop_cases(OPS.unpack, [(tensor(16, 32, dtype=torch.uint8, low=0, high=256), 4)])
def test_unpack(): ...
