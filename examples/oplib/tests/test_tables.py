import unittest

import numpy as np
import oplib
import torch


class TestTables(unittest.TestCase):
    def test_segment_sum(self):
        values = torch.randn(6, 3)
        out = oplib.segment_sum(values, torch.tensor([0, 2, 2, 6]))
        rows = values.numpy()
        expected = np.stack([rows[0:2].sum(0), rows[2:2].sum(0), rows[2:6].sum(0)])
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)

    def test_segment_sum_trains(self):
        values = torch.randn(6, 3, requires_grad=True)
        oplib.segment_sum(values, torch.tensor([0, 2, 2, 6])).sum().backward()
        np.testing.assert_array_equal(values.grad.numpy(), np.ones((6, 3)))

    def test_count_values(self):
        labels = torch.tensor([3, 0, 3, 1])
        np.testing.assert_array_equal(oplib.count_values(labels, 5).numpy(), [1, 1, 0, 2, 0])

    def test_ema(self):
        running = torch.zeros(4)
        oplib.ema_(running, torch.ones(4), momentum=0.25)
        oplib.ema_(running, torch.ones(4), momentum=0.25)
        np.testing.assert_allclose(running.numpy(), np.full(4, 0.4375))

    def test_quantize_rows(self):
        x = torch.randn(3, 7)
        rounded, scale = oplib.quantize_rows(x)
        self.assertEqual(rounded.dtype, torch.int8)
        back = rounded.numpy() * scale.numpy()[:, None]
        np.testing.assert_allclose(back, x.numpy(), atol=float(scale.max()))
