"""The custom ops that ship with torch, also on transposed inputs.

`tests/test_custom_op_db.py` runs torch's own sample inputs, which are all contiguous.
"""

import pytest
import torch

from pytest_customop import Sample, customop_cases, tensor

# The database needs these, and torch does not bring them.
pytest.importorskip("numpy")
pytest.importorskip("expecttest")
pytest.importorskip("torch.testing._internal.custom_op_db")

OPS = torch.ops._torch_testing
CELLS = {"dtypes": [torch.float32], "layouts": ["contiguous", "transposed"]}


@customop_cases(OPS.numpy_cat, [([tensor(4, 3), tensor(2, 3)], 0)], **CELLS)
def test_numpy_cat(): ...


@customop_cases(OPS.numpy_cube, [(tensor(4, 3),)], **CELLS)
def test_numpy_cube(): ...


@customop_cases(OPS.numpy_mul, [(tensor(4, 3), tensor(4, 3))], **CELLS)
def test_numpy_mul(): ...


@customop_cases(OPS.numpy_mul_scalar, [Sample((tensor(4, 3),), {"scalar": 2.0})], **CELLS)
def test_numpy_mul_scalar(): ...


@customop_cases(OPS.numpy_sort, [(tensor(4, 3), 0)], **CELLS)
def test_numpy_sort(): ...


@customop_cases(OPS.numpy_split_copy, [(tensor(4, 6), [1, 3], 1)], **CELLS)
def test_numpy_split_copy(): ...


@customop_cases(OPS.numpy_view_copy, [(tensor(4, 3), [2, 6])], **CELLS)
def test_numpy_view_copy(): ...
