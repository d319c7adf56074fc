import unittest

import numpy as np
import oplib
import torch


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class TestActivations(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.gate = torch.randn(4, 6)
        self.up = torch.randn(4, 6)

    def test_swiglu(self):
        gate, up = self.gate.numpy(), self.up.numpy()
        out = oplib.swiglu(self.gate, self.up)
        np.testing.assert_allclose(out.numpy(), gate * sigmoid(gate) * up, rtol=1e-5, atol=1e-6)

    def test_swiglu_trains(self):
        gate = self.gate.requires_grad_()
        oplib.swiglu(gate, self.up).sum().backward()
        s = sigmoid(gate.detach().numpy())
        expected = self.up.numpy() * s * (1 + gate.detach().numpy() * (1 - s))
        np.testing.assert_allclose(gate.grad.numpy(), expected, rtol=1e-4, atol=1e-5)

    def test_softcap(self):
        for cap in (5.0, 30.0):
            with self.subTest(cap=cap):
                out = oplib.softcap(self.up, cap)
                expected = cap * np.tanh(self.up.numpy() / cap)
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)

    def test_softcap_refuses(self):
        with self.assertRaises(RuntimeError):
            oplib.softcap(self.up, -1.0)
