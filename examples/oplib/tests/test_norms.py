import numpy as np
import oplib
import pytest
import torch


def reference(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5)])
@pytest.mark.parametrize("eps", [1e-6, 1e-3])
def test_rms_norm(shape, eps):
    x, weight = torch.randn(shape), torch.rand(5)
    out = oplib.rms_norm(x, weight, eps)
    expected = reference(x.numpy(), weight.numpy(), eps)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_rms_norm_trains():
    layer = torch.nn.Linear(4, 5)
    weight = torch.nn.Parameter(torch.ones(5))
    oplib.rms_norm(layer(torch.randn(3, 4)), weight).square().sum().backward()
    assert weight.grad is not None
    assert layer.weight.grad is not None


@pytest.mark.parametrize("keepdim", [False, True])
def test_masked_mean(keepdim):
    x, mask = torch.randn(4, 6), torch.rand(4, 6) > 0.3
    expected = np.ma.array(x.numpy(), mask=~mask.numpy()).mean(-1, keepdims=keepdim).filled(0)
    out = oplib.masked_mean(x, mask, keepdim)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-6)
