"""Copying, comparing and describing what goes in and out of ops."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_customop.cases.describe import describe, digest
from pytest_customop.cases.tensors import (
    Copier,
    difference,
    leaves,
    map_tensors,
    output_leaves,
    same_bits,
)
from pytest_customop.compat.tensors import neg_view

NAN = float("nan")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(12.0)[1::3],
        torch.ones(1).expand(4),
        torch.tensor(3.0),
        torch.empty(0, 3),
        torch.tensor([1 + 2j]).conj(),
        neg_view(torch.tensor([1.0, 2.0])),
        torch.tensor([1, 2], dtype=torch.uint8),
        torch.zeros(2, dtype=torch.float8_e4m3fn),
        torch.eye(3).to_sparse(),
    ],
    ids=lambda it: f"{it.dtype}-{it.layout}".replace("torch.", ""),
)
def test_a_copy_is_the_same_in_memory_of_its_own(tensor: torch.Tensor) -> None:
    copy = Copier()(tensor)
    assert copy.dtype == tensor.dtype
    assert copy.shape == tensor.shape
    assert copy.layout == tensor.layout
    assert (copy.is_conj(), copy.is_neg()) == (tensor.is_conj(), tensor.is_neg())
    assert same_bits(copy, tensor)
    if tensor.layout == torch.strided:
        assert copy.stride() == tensor.stride()
        assert copy.storage_offset() == tensor.storage_offset()
        if tensor.numel():
            assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore:.*quant")
def test_a_quantised_tensor_is_copied_compared_and_described() -> None:
    tensor = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    zeros = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8)
    assert difference(Copier()(tensor), tensor) is None
    assert difference(tensor, zeros) is not None
    assert describe(tensor).startswith("quint8[3] values sha256:")


def test_copies_share_memory_as_the_originals_do() -> None:
    base = torch.arange(6.0)
    copier = Copier()
    first, second = copier(base[:4]), copier(base[2:])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    second[0] = 50.0
    assert first[2] == 50.0
    assert base[2] == 2.0
    assert Copier()(base).untyped_storage().data_ptr() != first.untyped_storage().data_ptr()


def test_tensors_of_no_elements_do_not_share() -> None:
    copier = Copier()
    first, second = copier(torch.empty(0)), copier(torch.empty(0, 3, dtype=torch.int64))
    assert (first.dtype, second.dtype) == (torch.float32, torch.int64)
    assert (first.shape, second.shape) == ((0,), (0, 3))


def test_a_copy_is_detached_and_carries_no_attributes() -> None:
    tensor = torch.ones(3, requires_grad=True) * 2
    tensor.mark = "dynamic"  # type: ignore[attr-defined]
    copy = Copier()(tensor)
    assert not copy.requires_grad
    assert not hasattr(copy, "mark")


@pytest.mark.parametrize(
    ("actual", "expected", "reported"),
    [
        (torch.ones(3), torch.ones(2), "shape (3,) instead of (2,)"),
        (torch.ones(3), torch.ones(3).double(), "dtype float32 instead of float64"),
        (torch.ones(2), torch.ones(2, device="meta"), "device cpu instead of meta"),
        (
            torch.tensor([1.0, 2.0, 4.0]),
            torch.tensor([1.0, 2.5, 3.0]),
            "2 of 3 elements differ; first at [1]: 2 instead of 2.5; largest difference 1",
        ),
        (torch.tensor(1.0), torch.tensor(2.0), "the value differs: 1 instead of 2"),
        (
            torch.tensor([[1, 2], [3, 5]]),
            torch.tensor([[1, 2], [3, 4]]),
            "1 of 4 elements differ; first at [1, 1]: 5 instead of 4",
        ),
        (torch.tensor([NAN]), torch.tensor([1.0]), "nan instead of 1"),
        (torch.tensor([float("inf")]), torch.tensor([1.0]), "inf instead of 1"),
        (torch.tensor([True]), torch.tensor([False]), "True instead of False"),
        (torch.tensor([1 + 1j]), torch.tensor([1 - 1j]), "1+1j instead of 1-1j"),
    ],
)
def test_a_difference_in_words(actual: Any, expected: Any, reported: str) -> None:
    difference_told = difference(actual, expected)
    assert difference_told is not None
    assert reported in difference_told


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0])),
        (torch.tensor([complex(NAN, 1)]), torch.tensor([complex(NAN, 1)])),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-6])),
        (torch.empty(0, 3), torch.empty(0, 3)),
        (torch.tensor([1 + 1j]), torch.tensor([1 - 1j]).conj()),
        (torch.tensor([1.0]).half(), torch.tensor([1.0005]).half()),
        (torch.ones(3).to(torch.float8_e5m2), torch.ones(3).to(torch.float8_e5m2)),
        (torch.eye(2).to_sparse(), torch.eye(2)),
        (torch.arange(6).reshape(2, 3).t(), torch.arange(6).reshape(2, 3).t().contiguous()),
    ],
)
def test_no_difference(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert difference(actual, expected) is None


def test_tolerances_can_be_given_and_hold_for_integers_too() -> None:
    close, exact = torch.tensor([1.0, 2.01]), torch.tensor([1.0, 2.0])
    assert difference(close, exact) is not None
    assert difference(close, exact, 0.01, 0.0) is None
    assert difference(torch.tensor([10]), torch.tensor([11])) is not None
    assert difference(torch.tensor([10]), torch.tensor([11]), 0.0, 1.0) is None


def test_same_bits_takes_no_tolerance() -> None:
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0000001]))
    assert same_bits(torch.tensor([NAN]), torch.tensor([NAN]))


def test_leaves_have_paths() -> None:
    assert list(leaves([1, (2, None)], "xs")) == [("xs[0]", 1), ("xs[1][0]", 2), ("xs[1][1]", None)]
    assert [name for name, _ in output_leaves((1, [2, 3]))] == [
        "output 0",
        "output 1[0]",
        "output 1[1]",
    ]
    assert [name for name, _ in output_leaves([1, 2])] == ["output[0]", "output[1]"]
    assert output_leaves(None) == [("output", None)]


def test_mapping_keeps_lists_and_tuples() -> None:
    mapped = map_tensors([torch.ones(1), (torch.ones(2), 3, None)], lambda value: value.shape[0])
    assert mapped == [1, (2, 3, None)]


def test_descriptions_of_arguments() -> None:
    assert describe(3) == "3"
    assert describe("mean") == "'mean'"
    assert describe([1, 2]) == "[1, 2]"
    text = describe(torch.arange(12.0).reshape(3, 4)[:, 1:].requires_grad_())
    assert text.startswith("float32[3, 3] strides (4, 1) offset 1 requires_grad values sha256:")
    assert describe([torch.ones(2), None]).startswith("[float32[2] values sha256:")


def test_a_digest_differs_by_values_and_not_layouts() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    assert digest(tensor) == digest(tensor.t().contiguous().t())
    assert digest(tensor) != digest(tensor + 1)
    assert len(digest(torch.tensor(1.0))) == len(digest(torch.empty(0))) == 8
