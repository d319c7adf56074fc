import math

import numpy as np
import oplib
import pytest
import torch


def test_softmax_rows():
    scores = torch.randn(3, 5)
    expected = np.exp(scores.numpy())
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(oplib.softmax_rows(scores).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_scaled_dot(normalize):
    q, k = torch.randn(3, 4), torch.randn(3, 4)
    expected = (q.numpy() * k.numpy()).sum(-1) / (math.sqrt(4) if normalize else 1)
    out = oplib.scaled_dot(q, k, normalize=normalize)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_scaled_dot_trains():
    q, k = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    oplib.scaled_dot(q, k).sum().backward()
    np.testing.assert_allclose(q.grad.numpy(), k.numpy())
