"""A pytest suite of sphericart-torch as its authors test: closed forms, autograd and gradcheck."""

import math

import pytest
import sphericart.torch as sphericart
import torch

KINDS = {
    "spherical": sphericart.SphericalHarmonics,
    "solid": sphericart.SolidHarmonics,
}


@pytest.fixture
def xyz():
    return torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def closed_forms(kind, xyz):
    """The harmonics up to l = 1; the solid ones have no division by the radius."""
    x, y, z = xyz.unbind(1)
    if kind == "spherical":
        x, y, z = (coordinate / xyz.norm(dim=1) for coordinate in (x, y, z))
    first = torch.full_like(x, math.sqrt(1 / (4 * math.pi)))
    return torch.stack(
        [first, *(math.sqrt(3 / (4 * math.pi)) * coordinate for coordinate in (y, z, x))], 1
    )


@pytest.mark.parametrize("l_max", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms(xyz, kind, dtype, l_max):
    xyz = xyz.to(dtype)
    values = KINDS[kind](l_max).compute(xyz)
    assert values.shape == (20, (l_max + 1) ** 2)
    assert values.dtype == dtype
    torch.testing.assert_close(values[:, :4], closed_forms(kind, xyz))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(xyz, kind):
    calculator = KINDS[kind](3)
    values, gradients = calculator.compute_with_gradients(xyz)
    torch.testing.assert_close(values, calculator.compute(xyz))
    step = torch.zeros_like(xyz)
    step[:, 1] = 1e-6
    slope = (calculator.compute(xyz + step) - calculator.compute(xyz - step)) / 2e-6
    torch.testing.assert_close(gradients[:, 1], slope, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_backward(xyz, kind):
    calculator = KINDS[kind](3)
    xyz = xyz[:4].clone().requires_grad_()
    assert torch.autograd.gradcheck(calculator.compute, xyz, fast_mode=True)
    assert torch.autograd.gradgradcheck(calculator.compute, xyz, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_hessians(xyz, kind):
    calculator = KINDS[kind](2)
    values, gradients, hessians = calculator.compute_with_hessians(xyz)
    torch.testing.assert_close(gradients, calculator.compute_with_gradients(xyz)[1])
    torch.testing.assert_close(hessians, hessians.transpose(1, 2))
    if kind == "solid":
        laplacian = hessians.diagonal(dim1=1, dim2=2).sum(-1)
        torch.testing.assert_close(laplacian, torch.zeros_like(values), atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_many_calls(kind):
    """Values do not depend on what else is in the batch."""
    calculator = KINDS[kind](2)
    for seed in range(50):
        points = torch.rand(8, 3, generator=torch.Generator().manual_seed(seed)) + 0.1
        values = calculator(points)
        torch.testing.assert_close(values[:1], calculator(points[:1]))


def test_rejects_other_types(xyz):
    with pytest.raises(RuntimeError):
        sphericart.SphericalHarmonics(2).compute(xyz.to(torch.int64))
