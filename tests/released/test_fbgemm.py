"""fbgemm-gpu-cpu: jagged tensors, sparse features and row-wise quantisation.

The arguments are those of the package's documentation, or of the same kind.
"""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

pytest.importorskip("fbgemm_gpu.sparse_ops")
pytest.importorskip("fbgemm_gpu.sll")

OPS = torch.ops.fbgemm
LAYOUTS = ["contiguous", "transposed"]
FLOATS = [torch.float32, torch.float64]
# Three rows of one, two and no values.
OFFSETS = torch.tensor([0, 1, 3, 3])
LENGTHS = torch.tensor([1, 2, 0])


def values(*shape, dtype=None):
    """The values of a jagged tensor."""
    return tensor(3, *shape, dtype=dtype)


def int64(*numbers):
    """A tensor of indices, lengths or offsets."""
    return torch.tensor(numbers)


def int32(*numbers):
    """The same in 32 bits."""
    return torch.tensor(numbers, dtype=torch.int32)


# Jagged tensors


@customop_cases(OPS.jagged_2d_to_dense, [(values(4), OFFSETS, 2)], layouts=LAYOUTS)
def test_jagged_2d_to_dense(): ...


@customop_cases(OPS.jagged_1d_to_dense, [(values(), OFFSETS, 2, 0)])
def test_jagged_1d_to_dense(): ...


@customop_cases(
    OPS.jagged_to_padded_dense,
    [(values(4), [OFFSETS], [2], 7.0), Sample((values(4), [OFFSETS], [1], 0.0), id="truncated")],
    layouts=LAYOUTS,
)
def test_jagged_to_padded_dense(): ...


@customop_cases(
    OPS.jagged_to_padded_dense_forward, [(values(4), [OFFSETS], [2], 7.0)], layouts=LAYOUTS
)
def test_jagged_to_padded_dense_forward(): ...


@customop_cases(
    OPS.dense_to_jagged,
    [
        Sample((tensor(3, 2, 4), [OFFSETS]), id="no_total"),
        Sample((tensor(3, 2, 4), [OFFSETS], 3), id="total"),
    ],
    layouts=LAYOUTS,
)
def test_dense_to_jagged(): ...


@customop_cases(OPS.dense_to_jagged_forward, [(tensor(3, 2, 4), [OFFSETS], 3)], layouts=LAYOUTS)
def test_dense_to_jagged_forward(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_add,
    [(values(4), [OFFSETS], tensor(3, 2, 4))],
    layouts=LAYOUTS,
)
def test_jagged_dense_elementwise_add(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_add_jagged_output,
    [(values(4), [OFFSETS], tensor(3, 2, 4))],
    layouts=LAYOUTS,
)
def test_jagged_dense_elementwise_add_jagged_output(): ...


@customop_cases(
    OPS.jagged_dense_dense_elementwise_add_jagged_output,
    [(values(4), [OFFSETS], tensor(3, 2, 4), tensor(3, 2, 4))],
)
def test_jagged_dense_dense_elementwise_add_jagged_output(): ...


@customop_cases(
    OPS.jagged_dense_elementwise_mul, [(values(4), [OFFSETS], tensor(3, 2, 4))], layouts=LAYOUTS
)
def test_jagged_dense_elementwise_mul(): ...


@customop_cases(
    OPS.batched_dense_vec_jagged_2d_mul, [(tensor(3, 2), values(4), OFFSETS)], layouts=LAYOUTS
)
def test_batched_dense_vec_jagged_2d_mul(): ...


# Of a fixed shape: rows after the last offset are left as the memory was.
ROWS = tensor(values=torch.linspace(-1, 1, 12).cos().reshape(3, 4).tolist())


@customop_cases(OPS.jagged_softmax, [(ROWS, OFFSETS, 2)], layouts=LAYOUTS)
def test_jagged_softmax(): ...


@customop_cases(OPS.jagged_jagged_bmm, [(values(4), values(5), OFFSETS, 2)], layouts=LAYOUTS)
def test_jagged_jagged_bmm(): ...


# Of a fixed shape: the op takes more matrices than rows without a word.
MATRICES = tensor(values=torch.linspace(-1, 1, 60).cos().reshape(3, 4, 5).tolist())


@customop_cases(OPS.jagged_dense_bmm, [(values(4), OFFSETS, MATRICES, 2)], layouts=LAYOUTS)
def test_jagged_dense_bmm(): ...


@customop_cases(
    OPS.jagged_index_select,
    [(values(4), LENGTHS, int64(1, 0))],
)
def test_jagged_index_select(): ...


@customop_cases(OPS.masked_select_jagged_1d, [(values(), LENGTHS, int64(1, 0, 1).bool())])
def test_masked_select_jagged_1d(): ...


@customop_cases(
    OPS.stacked_jagged_1d_to_dense,
    [(tensor(5), torch.tensor([[1, 2], [2, 0]]), [0, 3, 5], [2, 2], 0)],
)
def test_stacked_jagged_1d_to_dense(): ...


@customop_cases(
    OPS.stacked_jagged_2d_to_dense,
    [(tensor(5, 3), torch.tensor([[1, 2], [2, 0]]), [0, 3, 5], [2, 2], 0)],
)
def test_stacked_jagged_2d_to_dense(): ...


@customop_cases(OPS.pack_segments, [(values(4), LENGTHS, 2)], layouts=LAYOUTS)
def test_pack_segments(): ...


@customop_cases(
    OPS.pack_segments_v2,
    [(values(4), LENGTHS, 2, False, True), (values(4), LENGTHS, 2)],
)
def test_pack_segments_v2(): ...


# Sparse features


@customop_cases(OPS.asynchronous_complete_cumsum, [(int64(7, 8, 2),)])
def test_asynchronous_complete_cumsum(): ...


@customop_cases(OPS.asynchronous_inclusive_cumsum, [(int64(7, 8, 2),)])
def test_asynchronous_inclusive_cumsum(): ...


@customop_cases(OPS.offsets_range, [(int64(0, 3, 7), 9)])
def test_offsets_range(): ...


@customop_cases(OPS.lengths_range, [(int64(2, 0, 3), None), (int64(2, 0, 3), [5])])
def test_lengths_range(): ...


@customop_cases(OPS.repeat_arange, [(int64(3, 5, 2),)])
def test_repeat_arange(): ...


@customop_cases(OPS.get_source_mask, [(int64(2, 3), int64(1, 2), 8)])
def test_get_source_mask(): ...


@customop_cases(OPS.invert_permute, [(int32(2, 0, 1),)])
def test_invert_permute(): ...


@customop_cases(OPS.expand_into_jagged_permute, [(int32(1, 0), int32(0, 2, 5), int32(0, 3, 5), 5)])
def test_expand_into_jagged_permute(): ...


@customop_cases(OPS.segment_sum_csr, [(2, int32(0, 3, 7, 8), tensor(16))])
def test_segment_sum_csr(): ...


@customop_cases(
    OPS.permute_2D_sparse_data,
    [
        (int32(1, 0), torch.tensor([[2, 1], [1, 2]]), tensor(6), tensor(6)),
        (int32(1, 0), torch.tensor([[2, 1], [1, 2]]), tensor(6), None, 6),
    ],
)
def test_permute_2d_sparse_data(): ...


@customop_cases(
    OPS.permute_2D_sparse_data_input1D, [(int32(1, 0), int64(2, 1, 1, 2), tensor(6), 2, tensor(6))]
)
def test_permute_2d_sparse_data_input1d(): ...


@customop_cases(OPS.permute_1D_sparse_data, [(int32(1, 0), int64(2, 3), tensor(5), tensor(5))])
def test_permute_1d_sparse_data(): ...


@customop_cases(
    OPS.permute_sparse_features,
    [(int32(1, 0), torch.tensor([[2, 1], [1, 2]]), torch.arange(6), tensor(6))],
)
def test_permute_sparse_features(): ...


@customop_cases(
    OPS.block_bucketize_sparse_features,
    [
        Sample(
            (
                int32(0, 2, 1, 3),
                int32(3, 4, 15, 1, 8, 9),
                pos,
                sequence,
                int32(5, 15),
                2,
                tensor(6),
            ),
            id=name,
        )
        for name, pos, sequence in (("bag", False, False), ("sequence", True, True))
    ],
)
def test_block_bucketize_sparse_features(): ...


@customop_cases(OPS.index_select_dim0, [(tensor(5, 4), int64(3, 0, 3))], layouts=LAYOUTS)
def test_index_select_dim0(): ...


@customop_cases(
    OPS.group_index_select_dim0,
    [([tensor(5, 4), tensor(6, 3)], [int64(3, 0, 3), int64(1, 2, 0)])],
)
def test_group_index_select_dim0(): ...


@customop_cases(
    OPS.batch_index_select_dim0, [(tensor(26), int64(3, 0, 2, 1, 0), [3, 2], [5, 2], [4, 3])]
)
def test_batch_index_select_dim0(): ...


@customop_cases(
    OPS.permute_pooled_embs_auto_grad,
    [(tensor(3, 16), int64(0, 4, 8, 16), int64(2, 0, 1), int64(0, 8, 12, 16), int64(1, 2, 0))],
    layouts=LAYOUTS,
)
def test_permute_pooled_embs_auto_grad(): ...


@customop_cases(
    OPS.batched_unary_embeddings,
    [(tensor(2, 7, 1), int64(0, 3, 7), int64(0, 1, 2, 3, 5), int64(0, 2, 1, 3, 0))],
)
def test_batched_unary_embeddings(): ...


@customop_cases(
    OPS.histogram_binning_calibration,
    [
        (
            tensor(6),
            tensor(8, dtype=torch.float64),
            tensor(8, dtype=torch.float64),
            0.4,
            0.0,
            1.0,
            10000,
            0.9995,
        )
    ],
    requires_grad=False,
)
def test_histogram_binning_calibration(): ...


# Quantisation


@customop_cases(OPS.FloatToFused8BitRowwiseQuantized, [(tensor(4, 6),)], layouts=LAYOUTS)
def test_float_to_fused_8bit_rowwise(): ...


@customop_cases(
    OPS.FloatOrHalfToFused8BitRowwiseQuantized,
    [(tensor(4, 6),)],
    dtypes=[torch.float32, torch.float16],
    layouts=LAYOUTS,
)
def test_float_or_half_to_fused_8bit_rowwise(): ...


@customop_cases(
    OPS.FloatOrHalfToFusedNBitRowwiseQuantizedSBHalf,
    [(tensor(4, 8), 4), (tensor(4, 8), 2)],
    dtypes=[torch.float32, torch.float16],
    layouts=LAYOUTS,
)
def test_float_or_half_to_fused_nbit_rowwise(): ...


def eight_bits(device, dtype, requires_grad):
    """Rows that are quantised to eight bits."""
    del device, dtype, requires_grad
    rows = torch.linspace(-1, 1, 24).reshape(4, 6)
    return [(OPS.FloatToFused8BitRowwiseQuantized(rows),)]


def four_bits(device, dtype, requires_grad):
    """Rows that are quantised to four bits."""
    del device, dtype, requires_grad
    rows = torch.linspace(-1, 1, 32).reshape(4, 8)
    return [(OPS.FloatToFusedNBitRowwiseQuantizedSBHalf(rows, 4), 4)]


@customop_cases(OPS.Fused8BitRowwiseQuantizedToFloat, eight_bits, layouts=LAYOUTS)
def test_fused_8bit_rowwise_to_float(): ...


@customop_cases(OPS.Fused8BitRowwiseQuantizedToHalf, eight_bits)
def test_fused_8bit_rowwise_to_half(): ...


@customop_cases(OPS.FusedNBitRowwiseQuantizedSBHalfToFloat, four_bits, layouts=LAYOUTS)
def test_fused_nbit_rowwise_to_float(): ...


@customop_cases(OPS.FloatToHFP8Quantized, [(tensor(4, 6), 4, 14, 0.9375)], layouts=LAYOUTS)
def test_float_to_hfp8(): ...


@customop_cases(
    OPS.HFP8QuantizedToFloat,
    [(tensor(4, 6, dtype=torch.uint8, low=0, high=255), 4, 14)],
    layouts=LAYOUTS,
)
def test_hfp8_to_float(): ...


@customop_cases(OPS.FloatToBfloat16Quantized, [(tensor(4, 6),)], layouts=LAYOUTS)
def test_float_to_bfloat16(): ...


# Jagged tensors, the ops of the sll package


@customop_cases(
    OPS.sll_jagged_dense_bmm, [(values(4), MATRICES, OFFSETS, 2, False)], layouts=LAYOUTS
)
def test_sll_jagged_dense_bmm(): ...


@customop_cases(OPS.sll_jagged_jagged_bmm, [(values(4), values(5), OFFSETS, 2, False)])
def test_sll_jagged_jagged_bmm(): ...


@customop_cases(OPS.sll_dense_jagged_cat_jagged_out, [(tensor(3), values(), OFFSETS, 2)])
def test_sll_dense_jagged_cat_jagged_out(): ...


@customop_cases(OPS.sll_jagged2_to_padded_dense, [(tensor(5), int64(0, 1, 5), 2, 0.0)])
def test_sll_jagged2_to_padded_dense(): ...


@customop_cases(
    OPS.sll_jagged_dense_elementwise_mul_jagged_out,
    [(tensor(5), tensor(2, 2), int64(1, 2), int64(0, 1, 5), 2)],
)
def test_sll_jagged_dense_elementwise_mul_jagged_out(): ...


@customop_cases(OPS.sll_jagged_softmax, [(ROWS, OFFSETS, 2)])
def test_sll_jagged_softmax(): ...


@customop_cases(
    OPS.sll_jagged2_softmax,
    [
        Sample((tensor(5), int64(0, 1, 3), int64(0, 1, 5), 2, False), id="rows"),
        Sample((tensor(5), int64(0, 1, 3), int64(0, 1, 5), 2, True), id="columns"),
    ],
)
def test_sll_jagged2_softmax(): ...


@customop_cases(
    OPS.sll_array_jagged_bmm_jagged_out,
    [
        (
            tensor(5),
            values(4),
            int64(1, 4),
            int64(0, 1, 5),
            int64(1, 2),
            int64(0, 1, 3),
            int64(1, 2),
            int64(0, 1, 3),
            2,
            False,
        )
    ],
)
def test_sll_array_jagged_bmm_jagged_out(): ...


@customop_cases(
    OPS.sll_jagged_jagged_bmm_jagged_out,
    [
        (
            values(4),
            values(4),
            int64(1, 2),
            int64(0, 1, 3),
            int64(1, 2),
            int64(0, 1, 3),
            int64(1, 4),
            int64(0, 1, 5),
            2,
            False,
        )
    ],
)
def test_sll_jagged_jagged_bmm_jagged_out(): ...


@customop_cases(
    OPS.sll_jagged_flash_attention_basic,
    [(values(4), values(4), values(4), int64(0, 1, 3), 2)],
)
def test_sll_jagged_flash_attention_basic(): ...


@customop_cases(OPS.sll_jagged_dense_elementwise_add, [(values(4), OFFSETS, tensor(3, 2, 4), 2)])
def test_sll_jagged_dense_elementwise_add(): ...
