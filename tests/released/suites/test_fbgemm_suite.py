"""A unittest suite of fbgemm-gpu-cpu as its authors test: values against plain torch, nothing else."""

# ruff: noqa: PT009, PT027 -- unittest's own assertions, as in that suite

import unittest

import fbgemm_gpu.sparse_ops  # noqa: F401
import torch

OPS = torch.ops.fbgemm


def offsets_of(lengths):
    """The offsets of rows of these lengths."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def padded(values, lengths, width, fill=0.0):
    """Rows of a jagged tensor, cut or filled up to one width."""
    out = values.new_full((len(lengths), width, *values.shape[1:]), fill)
    for row, part in enumerate(values.split(lengths.tolist())):
        out[row, : len(part)] = part[:width]
    return out


class SparseOpsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_asynchronous_complete_cumsum(self):
        for size in (0, 1, 5, 100):
            for dtype in (torch.int32, torch.int64):
                with self.subTest(size=size, dtype=dtype):
                    lengths = torch.randint(0, 10, (size,), dtype=dtype)
                    torch.testing.assert_close(
                        OPS.asynchronous_complete_cumsum(lengths),
                        offsets_of(lengths).to(dtype),
                    )

    def test_offsets_range(self):
        lengths = torch.tensor([3, 0, 2, 4])
        ranges = OPS.offsets_range(offsets_of(lengths)[:-1], 9)
        expected = torch.cat([torch.arange(n) for n in lengths.tolist()])
        torch.testing.assert_close(ranges, expected)

    def test_invert_permute(self):
        permute = torch.randperm(17, dtype=torch.int32)
        inverse = OPS.invert_permute(permute)
        torch.testing.assert_close(inverse[permute.long()], torch.arange(17, dtype=torch.int32))

    def test_segment_sum_csr(self):
        ends = torch.tensor([0, 3, 7, 8], dtype=torch.int32)
        for _ in range(5):
            values = torch.rand(16)
            sums = [part.sum() for part in values.split([6, 8, 2])]
            torch.testing.assert_close(OPS.segment_sum_csr(2, ends, values), torch.stack(sums))

    def test_permute_2d_sparse_data(self):
        lengths = torch.tensor([[2, 1], [1, 2]])
        permute = torch.tensor([1, 0], dtype=torch.int32)
        values, weights = torch.rand(6), torch.rand(6)
        for optional_weights in (None, weights):
            out = OPS.permute_2D_sparse_data(permute, lengths, values, optional_weights, None)
            torch.testing.assert_close(out[0], lengths.flip(0))
            torch.testing.assert_close(out[1], values.roll(3))
            if optional_weights is None:
                self.assertIsNone(out[2])
            else:
                torch.testing.assert_close(out[2], weights.roll(3))

    def test_batch_index_select_dim0(self):
        first, second = torch.rand(5, 4), torch.rand(2, 3)
        inputs = torch.cat([first.flatten(), second.flatten()]).requires_grad_()
        picked = torch.tensor([3, 0, 2, 1, 0])
        out = OPS.batch_index_select_dim0(inputs, picked, [3, 2], [5, 2], [4, 3])
        expected = torch.cat([first[picked[:3]].flatten(), second[picked[3:]].flatten()])
        torch.testing.assert_close(out, expected)
        out.sum().backward()
        self.assertEqual(inputs.grad.sum(), 18)

    def test_8bit_rowwise(self):
        for rows, columns in ((4, 16), (7, 20)):
            x = torch.randn(rows, columns)
            packed = OPS.FloatToFused8BitRowwiseQuantized(x)
            self.assertEqual(packed.shape, (rows, columns + 8))
            back = OPS.Fused8BitRowwiseQuantizedToFloat(packed)
            torch.testing.assert_close(back, x, atol=0.02, rtol=0)


class JaggedTensorOpsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.lengths = torch.tensor([1, 2, 0])
        self.offsets = offsets_of(self.lengths)

    def test_jagged_2d_to_dense(self):
        values = torch.rand(3, 4, requires_grad=True)
        dense = OPS.jagged_2d_to_dense(values, self.offsets, 2)
        torch.testing.assert_close(dense, padded(values, self.lengths, 2))
        dense.mul(3).sum().backward()
        torch.testing.assert_close(values.grad, torch.full_like(values, 3))

    def test_jagged_to_padded_dense(self):
        for width in (1, 2, 5):
            for fill in (0.0, 7.0):
                with self.subTest(width=width, fill=fill):
                    values = torch.rand(3, 4)
                    dense = OPS.jagged_to_padded_dense(values, [self.offsets], [width], fill)
                    torch.testing.assert_close(dense, padded(values, self.lengths, width, fill))

    def test_dense_to_jagged(self):
        values = torch.rand(3, 4)
        dense = padded(values, self.lengths, 2)
        torch.testing.assert_close(OPS.dense_to_jagged(dense, [self.offsets])[0], values)
        torch.testing.assert_close(OPS.dense_to_jagged(dense, [self.offsets], 3)[0], values)

    def test_jagged_dense_elementwise_mul(self):
        for _ in range(3):
            x = torch.rand(3, 4, requires_grad=True)
            y = torch.rand(3, 2, 4, requires_grad=True)
            out, _offsets = OPS.jagged_dense_elementwise_mul(x, [self.offsets], y)
            torch.testing.assert_close(out, x * torch.stack([y[0, 0], y[1, 0], y[1, 1]]))
            out.sum().backward()
            torch.testing.assert_close(y.grad, padded(x.detach(), self.lengths, 2))

    def test_jagged_dense_elementwise_add_jagged_output(self):
        x, y = torch.rand(3, 4), torch.rand(3, 2, 4)
        out, _ = OPS.jagged_dense_elementwise_add_jagged_output(x, [self.offsets], y)
        torch.testing.assert_close(out, x + torch.stack([y[0, 0], y[1, 0], y[1, 1]]))

    def test_jagged_softmax(self):
        values = torch.rand(3, 4)
        out, _ = OPS.jagged_softmax(values, self.offsets, 2)
        rows = [part.softmax(0) for part in values.split(self.lengths.tolist())]
        torch.testing.assert_close(out, torch.cat(rows))

    def test_jagged_dense_bmm(self):
        values, matrices = torch.rand(3, 4), torch.rand(3, 4, 5)
        out, _ = OPS.jagged_dense_bmm(values, self.offsets, matrices, 2)
        rows = zip(values.split(self.lengths.tolist()), matrices, strict=True)
        torch.testing.assert_close(out, torch.cat([row @ matrix for row, matrix in rows]))

    def test_pack_segments(self):
        values = torch.rand(3, 4, requires_grad=True)
        out = OPS.pack_segments(values, self.lengths, 2)
        torch.testing.assert_close(out, padded(values, self.lengths, 2))

    def test_offsets_of_two_dimensions(self):
        with self.assertRaises(RuntimeError):
            OPS.jagged_2d_to_dense(torch.rand(3, 4), self.offsets[None], 2)


if __name__ == "__main__":
    unittest.main()
