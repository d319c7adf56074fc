"""torch-harmonics: a plain example an op, as its modules call it."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

harmonics = pytest.importorskip("torch_harmonics")

GRID = (6, 12)
ATTENTION = torch.ops.attention_kernels
DISCO = torch.ops.disco_kernels
CONVOLUTION = harmonics.DiscreteContinuousConvS2(2, 3, GRID, GRID, (3,), fused=True)
TRANSPOSED = harmonics.DiscreteContinuousConvTransposeS2(2, 3, GRID, GRID, (3,))
MADE = harmonics.NeighborhoodAttentionS2(4, GRID, GRID, num_heads=2)


def sparse(module):
    """What the convolutions precompute."""
    names = ("psi_roff_idx", "psi_ker_idx", "psi_row_idx", "psi_col_idx", "psi_vals")
    return tuple(getattr(module, name) for name in names)


@customop_cases(ATTENTION.permute_to_nhwc, [(tensor(2, 3, 6, 12),)])
def test_permute_to_nhwc(): ...


@customop_cases(ATTENTION.permute_to_nchw, [(tensor(2, 6, 12, 3),)])
def test_permute_to_nchw(): ...


@customop_cases(
    ATTENTION._neighborhood_s2_attention_optimized,
    [
        (
            tensor(2, *GRID, 4),
            tensor(2, *GRID, 4),
            tensor(2, *GRID, 4),
            MADE.quad_weights,
            MADE.psi_col_idx,
            MADE.psi_roff_idx,
            MADE.psi_seg,
            MADE.psi_seg_off,
            2,
            GRID[1],
            *GRID,
        )
    ],
    dtypes=[torch.float32],
)
def test_attention(): ...


@customop_cases(
    DISCO._disco_s2_contraction_optimized,
    [
        (
            tensor(2, 2, *GRID, dtype=torch.float64),
            *sparse(CONVOLUTION),
            CONVOLUTION.kernel_size,
            *GRID,
        )
    ],
)
def test_contraction(): ...


@customop_cases(
    DISCO._disco_s2_transpose_contraction_optimized,
    [
        (
            tensor(2, 3, TRANSPOSED.kernel_size, *GRID, dtype=torch.float64),
            *sparse(TRANSPOSED),
            TRANSPOSED.kernel_size,
            *GRID,
        )
    ],
)
def test_transpose_contraction(): ...
