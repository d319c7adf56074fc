"""fbgemm-gpu-cpu: a plain example an op, as its documentation has it, or of the same kind."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("fbgemm_gpu.sparse_ops")
pytest.importorskip("fbgemm_gpu.sll")

OPS = torch.ops.fbgemm
# Three rows of one, three and two values.
OFFSETS = torch.tensor([0, 1, 4, 6])
LENGTHS = torch.tensor([1, 3, 2])
ROWS = torch.linspace(-1, 1, 64).reshape(4, 16)


def listed(variant):
    """Why a variant is left out: these kernels do not look at the strides of offsets and lengths."""
    if variant.step.endswith("expanded"):
        return "one number repeated is read past its end; whether that crashes is chance"
    return None


def values(*shape):
    """The values of a jagged tensor."""
    return tensor(6, *shape)


def int64(*numbers):
    """A tensor of indices, lengths or offsets."""
    return torch.tensor(numbers)


def int32(*numbers):
    """The same in 32 bits."""
    return torch.tensor(numbers, dtype=torch.int32)


# Jagged tensors


@customop_cases(OPS.jagged_2d_to_dense, [(values(4), OFFSETS, 3)], variants=listed)
def test_jagged_2d_to_dense(): ...


@customop_cases(OPS.jagged_1d_to_dense, [(values(), OFFSETS, 3, 0)], variants=listed)
def test_jagged_1d_to_dense(): ...


@customop_cases(OPS.jagged_to_padded_dense, [(values(4), [OFFSETS], [3], 7.0)], variants=listed)
def test_jagged_to_padded_dense(): ...


@customop_cases(OPS.dense_to_jagged, [(tensor(3, 3, 4), [OFFSETS])], variants=listed)
def test_dense_to_jagged(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_add, [(values(4), [OFFSETS], tensor(3, 3, 4))], variants=listed
)
def test_jagged_dense_elementwise_add(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_mul, [(values(4), [OFFSETS], tensor(3, 3, 4))], variants=listed
)
def test_jagged_dense_elementwise_mul(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_add_jagged_output,
    [(values(4), [OFFSETS], tensor(3, 3, 4))],
    variants=listed,
)
def test_jagged_dense_elementwise_add_jagged_output(): ...


@customop_cases(
    OPS.batched_dense_vec_jagged_2d_mul, [(tensor(3, 3), values(4), OFFSETS)], variants=listed
)
def test_batched_dense_vec_jagged_2d_mul(): ...


@customop_cases(OPS.jagged_softmax, [(values(4), OFFSETS, 3)], variants=listed)
def test_jagged_softmax(): ...


@customop_cases(OPS.jagged_jagged_bmm, [(values(4), values(5), OFFSETS, 3)], variants=listed)
def test_jagged_jagged_bmm(): ...


@customop_cases(OPS.jagged_dense_bmm, [(values(4), OFFSETS, tensor(3, 4, 5), 3)], variants=listed)
def test_jagged_dense_bmm(): ...


@customop_cases(OPS.jagged_index_select, [(values(4), LENGTHS, int64(1, 0))], variants=listed)
def test_jagged_index_select(): ...


@customop_cases(
    OPS.masked_select_jagged_1d,
    [(values(), LENGTHS, int64(1, 0, 1, 1, 0, 1).bool())],
    variants=listed,
)
def test_masked_select_jagged_1d(): ...


@customop_cases(OPS.pack_segments, [(values(4), LENGTHS, 3)], variants=listed)
def test_pack_segments(): ...


@customop_cases(OPS.pack_segments_v2, [(values(4), LENGTHS, 3)], variants=listed)
def test_pack_segments_v2(): ...


# Sparse features


@customop_cases(OPS.asynchronous_complete_cumsum, [(int64(7, 8, 2, 1, 0, 9),)], variants=listed)
def test_asynchronous_complete_cumsum(): ...


@customop_cases(OPS.asynchronous_exclusive_cumsum, [(int64(7, 8, 2, 1, 0, 9),)], variants=listed)
def test_asynchronous_exclusive_cumsum(): ...


@customop_cases(OPS.asynchronous_inclusive_cumsum, [(int64(7, 8, 2, 1, 0, 9),)], variants=listed)
def test_asynchronous_inclusive_cumsum(): ...


@customop_cases(OPS.offsets_range, [(int64(0, 3, 7), 9)], variants=listed)
def test_offsets_range(): ...


@customop_cases(OPS.lengths_range, [(int64(2, 0, 3), None)], variants=listed)
def test_lengths_range(): ...


@customop_cases(OPS.repeat_arange, [(int64(3, 5, 2),)], variants=listed)
def test_repeat_arange(): ...


@customop_cases(OPS.invert_permute, [(int32(2, 0, 1),)], variants=listed)
def test_invert_permute(): ...


@customop_cases(OPS.segment_sum_csr, [(2, int32(0, 3, 7, 8), tensor(16))], variants=listed)
def test_segment_sum_csr(): ...


@customop_cases(
    OPS.permute_2D_sparse_data,
    [(int32(1, 0), torch.tensor([[2, 1], [1, 2]]), tensor(6), tensor(6))],
    variants=listed,
)
def test_permute_2d_sparse_data(): ...


@customop_cases(
    OPS.permute_1D_sparse_data, [(int32(1, 0), int64(2, 3), tensor(5), tensor(5))], variants=listed
)
def test_permute_1d_sparse_data(): ...


@customop_cases(
    OPS.permute_sparse_features,
    [(int32(1, 0), torch.tensor([[2, 1], [1, 2]]), torch.arange(6), tensor(6))],
    variants=listed,
)
def test_permute_sparse_features(): ...


@customop_cases(
    OPS.block_bucketize_sparse_features,
    [(int32(0, 2, 1, 3), int32(3, 4, 15, 1, 8, 9), False, False, int32(5, 15), 2, tensor(6))],
    variants=listed,
)
def test_block_bucketize_sparse_features(): ...


@customop_cases(
    OPS.batch_index_select_dim0,
    [(tensor(26), int64(3, 0, 2, 1, 0), [3, 2], [5, 2], [4, 3])],
    variants=listed,
)
def test_batch_index_select_dim0(): ...


@customop_cases(
    OPS.permute_pooled_embs_auto_grad,
    [(tensor(3, 16), int64(0, 4, 8, 16), int64(2, 0, 1), int64(0, 8, 12, 16), int64(1, 2, 0))],
    variants=listed,
)
def test_permute_pooled_embs_auto_grad(): ...


@customop_cases(
    OPS.batched_unary_embeddings,
    [(tensor(2, 7, 1), int64(0, 3, 7), int64(0, 1, 2, 3, 5), int64(0, 2, 1, 3, 0))],
    variants=listed,
)
def test_batched_unary_embeddings(): ...


# Quantisation


@customop_cases(OPS.FloatToFused8BitRowwiseQuantized, [(tensor(4, 16),)])
def test_float_to_fused_8bit_rowwise(): ...


@customop_cases(OPS.FloatOrHalfToFused8BitRowwiseQuantized, [(tensor(4, 16),)])
def test_float_or_half_to_fused_8bit_rowwise(): ...


@customop_cases(OPS.FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf, [(tensor(4, 16), 4)])
def test_float_or_half_to_fused_nbit_rowwise(): ...


@customop_cases(
    OPS.Fused8BitRowwiseQuantizedToFloat, [(OPS.FloatToFused8BitRowwiseQuantized(ROWS),)]
)
def test_fused_8bit_rowwise_to_float(): ...


@customop_cases(
    OPS.FusedNBitRowwiseQuantizedSBHalfToFloat,
    [(OPS.FloatToFusedNBitRowwiseQuantizedSBHalf(ROWS, 4), 4)],
)
def test_fused_nbit_rowwise_to_float(): ...


@customop_cases(OPS.FloatToHFP8Quantized, [(tensor(4, 16), 4, 14, 0.9375)])
def test_float_to_hfp8(): ...


@customop_cases(
    OPS.HFP8QuantizedToFloat, [(tensor(4, 16, dtype=torch.uint8, low=0, high=256), 4, 14)]
)
def test_hfp8_to_float(): ...


# Jagged tensors, the ops of the sll package


@customop_cases(
    OPS.sll_jagged_dense_bmm, [(values(4), tensor(3, 4, 5), OFFSETS, 3, False)], variants=listed
)
def test_sll_jagged_dense_bmm(): ...


@customop_cases(
    OPS.sll_jagged_jagged_bmm, [(values(4), values(5), OFFSETS, 3, False)], variants=listed
)
def test_sll_jagged_jagged_bmm(): ...


@customop_cases(OPS.sll_jagged_softmax, [(values(4), OFFSETS, 3)], variants=listed)
def test_sll_jagged_softmax(): ...
