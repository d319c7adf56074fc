"""torch-harmonics: convolution and neighbourhood attention on the sphere, with its C++ kernels."""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

harmonics = pytest.importorskip("torch_harmonics")

GRID = (6, 12)
ATTENTION = torch.ops.attention_kernels
DISCO = torch.ops.disco_kernels
LAYOUTS = ["contiguous", "transposed"]


def field(*shape, dtype=torch.float64):
    """A field on the grid."""
    return tensor(*shape, dtype=dtype)


def attention():
    """Keys, values, queries, what the module precomputes, and its sizes."""
    module = harmonics.NeighborhoodAttentionS2(4, GRID, GRID, num_heads=2)
    indices = (module.psi_col_idx, module.psi_roff_idx, module.psi_seg, module.psi_seg_off)
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        # Of a fixed shape: the op takes another grid than the precomputed one without a word.
        waves = [torch.linspace(0, end, 576).sin().reshape(2, *GRID, 4) for end in (20, 30, 40)]
        specs = [tensor(values=wave.tolist(), dtype=dtype) for wave in waves]
        yield Sample((*specs, module.quad_weights, *indices, 2, GRID[1], *GRID), id=name)


def sparse(module):
    """What the convolutions precompute."""
    names = ("psi_roff_idx", "psi_ker_idx", "psi_row_idx", "psi_col_idx", "psi_vals")
    return tuple(getattr(module, name) for name in names)


def split(module):
    """The same, kernel by kernel."""
    names = ("roff_idx", "nnz_off", "ker_idx", "row_idx", "col_idx", "vals")
    return tuple(getattr(module, f"psi_split_{name}") for name in names)


CONVOLUTION = harmonics.DiscreteContinuousConvS2(2, 3, GRID, GRID, (3,), fused=True)
TRANSPOSED = harmonics.DiscreteContinuousConvTransposeS2(2, 3, GRID, GRID, (3,))


@customop_cases(
    ATTENTION.permute_to_nhwc, [(tensor(2, 3, 4, 5),)], dtypes=[torch.float32, torch.float64]
)
def test_permute_to_nhwc(): ...


@customop_cases(
    ATTENTION.permute_to_nchw, [(tensor(2, 4, 5, 3),)], dtypes=[torch.float32, torch.float64]
)
def test_permute_to_nchw(): ...


@customop_cases(ATTENTION._neighborhood_s2_attention_optimized, list(attention()))
def test_attention(): ...


# Slow by design: it is what the other one is compared with.
@customop_cases(
    ATTENTION._neighborhood_s2_attention_torch,
    list(attention())[:1],
    checks=["opcheck", "fake", "compile.static"],
)
def test_attention_in_torch(): ...


@customop_cases(
    DISCO._disco_s2_contraction_optimized,
    [(field(2, 2, *GRID), *sparse(CONVOLUTION), CONVOLUTION.kernel_size, *GRID)],
    layouts=LAYOUTS,
)
def test_contraction(): ...


@customop_cases(
    DISCO._disco_s2_transpose_contraction_optimized,
    [
        (
            field(2, 3, TRANSPOSED.kernel_size, *GRID),
            *sparse(TRANSPOSED),
            TRANSPOSED.kernel_size,
            *GRID,
        )
    ],
    layouts=LAYOUTS,
)
def test_transpose_contraction(): ...


@customop_cases(
    DISCO._disco_s2_fused_conv_optimized,
    [
        (
            field(2, 2, *GRID),
            field(1, 3, 2, CONVOLUTION.kernel_size),
            *sparse(CONVOLUTION),
            *split(CONVOLUTION),
            CONVOLUTION.kernel_size,
            *GRID,
            CONVOLUTION.groups,
            CONVOLUTION.groupsize,
            list(CONVOLUTION.psi_split_row_offsets),
            list(CONVOLUTION.psi_split_nnz_offsets),
        )
    ],
    layouts=LAYOUTS,
)
def test_fused_convolution(): ...
