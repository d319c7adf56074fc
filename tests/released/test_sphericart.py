"""sphericart-torch: spherical harmonics of points in space."""

import pytest
import torch

from pytest_customop import customop_cases, tensor

pytest.importorskip("sphericart.torch")

OPS = torch.ops.sphericart_torch
# Of a fixed shape: the ops take rows of another length than three without a word.
POINTS = [(tensor(values=torch.linspace(-1, 1, 15).cos().reshape(5, 3).tolist()), 2)]
EVERYWHERE = {"dtypes": [torch.float64], "layouts": ["contiguous", "transposed"]}
# The check raises the number of threads, after which a call corrupts the heap: finding 30.
FEW_THREADS = {**EVERYWHERE, "checks": ["-state.globals"]}
# A backward that raises on purpose is a failure where gradients are asked for.
ASKED = {**FEW_THREADS, "requires_grad": [False, True]}


@customop_cases(OPS.spherical_harmonics, POINTS, **EVERYWHERE)
def test_spherical_harmonics(): ...


@customop_cases(OPS.spherical_harmonics_with_gradients, POINTS, **FEW_THREADS)
def test_spherical_harmonics_with_gradients(): ...


@customop_cases(OPS.spherical_harmonics_with_hessians, POINTS, **ASKED)
def test_spherical_harmonics_with_hessians(): ...


@customop_cases(OPS.solid_harmonics, POINTS, **EVERYWHERE)
def test_solid_harmonics(): ...


@customop_cases(OPS.solid_harmonics_with_gradients, POINTS, **FEW_THREADS)
def test_solid_harmonics_with_gradients(): ...


@customop_cases(OPS.solid_harmonics_with_hessians, POINTS, **ASKED)
def test_solid_harmonics_with_hessians(): ...
