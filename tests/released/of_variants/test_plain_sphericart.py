"""sphericart-torch: a plain example an op, as in the package's README."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("sphericart.torch")

OPS = torch.ops.sphericart_torch
POINTS = [(tensor(10, 3, dtype=torch.float64), 4)]


@customop_cases(OPS.spherical_harmonics, POINTS)
def test_spherical_harmonics(): ...


@customop_cases(OPS.spherical_harmonics_with_gradients, POINTS)
def test_spherical_harmonics_with_gradients(): ...


@customop_cases(OPS.solid_harmonics, POINTS)
def test_solid_harmonics(): ...


@customop_cases(OPS.solid_harmonics_with_gradients, POINTS)
def test_solid_harmonics_with_gradients(): ...
