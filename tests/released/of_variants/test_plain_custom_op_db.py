"""The custom ops that ship with torch: a plain example an op."""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

pytest.importorskip("numpy")
pytest.importorskip("expecttest")
pytest.importorskip("torch.testing._internal.custom_op_db")

OPS = torch.ops._torch_testing


@customop_cases(OPS.numpy_cat, [([tensor(4, 3), tensor(2, 3)], 0)])
def test_numpy_cat(): ...


@customop_cases(OPS.numpy_cube, [(tensor(4, 3),)])
def test_numpy_cube(): ...


@customop_cases(OPS.numpy_mul, [(tensor(4, 3), tensor(4, 3))])
def test_numpy_mul(): ...


@customop_cases(OPS.numpy_mul_scalar, [Sample((tensor(4, 3),), {"scalar": 2.0})])
def test_numpy_mul_scalar(): ...


@customop_cases(OPS.numpy_nonzero, [(tensor(4, 3),)], requires_grad=False)
def test_numpy_nonzero(): ...


@customop_cases(OPS.numpy_sort, [(tensor(4, 3), 0)])
def test_numpy_sort(): ...


@customop_cases(OPS.numpy_split_copy, [(tensor(4, 6), [1, 3], 1)])
def test_numpy_split_copy(): ...


# Its own inverse.
ORDER = torch.tensor([[1, 0, 2, 4, 3]] * 3)


@customop_cases(OPS.numpy_take, [(tensor(3, 5), ORDER, ORDER, 1)])
def test_numpy_take(): ...


@customop_cases(OPS.numpy_view_copy, [(tensor(4, 3), [2, 6])])
def test_numpy_view_copy(): ...
