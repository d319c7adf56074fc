"""What numpy computes for a kernel in a block of wide arrays, and what it still computes in few bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_customop.compat.wide_array import Watch
from pytest_customop.compat.wide_arrays import wide_arrays

BYTES = torch.tensor([[200, 100, 7], [250, 3, 255]], dtype=torch.uint8)
CODES = torch.tensor([[100, -100, 5], [-100, 100, 2]], dtype=torch.int8)


def is_here(file: str) -> bool:
    return file == __file__


def in_place(a: Any) -> Any:
    a = a.copy()
    a += a
    a[0] -= 1
    return a


def into_few_bits(a: Any) -> Any:
    total = np.zeros(a.shape[1], dtype=np.int8)
    total += a[0]
    total += a[0]
    return total


def bits_of(a: Any) -> Any:
    """The number of bits that two rows have in common, counted in bytes."""
    bits = np.unpackbits(a.repeat(50, axis=1), axis=1)
    return bits @ bits.T


# (kernel, tensor) -> the numbers with all bits; the operator that overflows.
WIDE: dict[str, tuple[Callable[[Any], Any], torch.Tensor, list[Any], str]] = {
    "difference": (lambda a: a[0] - a[1], CODES, [200, -200, 3], "subtract"),
    "halved": (lambda a: (a[0] + a[1]) // 2, BYTES, [225, 51, 131], "add"),
    "in place": (lambda a: in_place(a)[0], BYTES, [399, 199, 13], "add"),
    "cast too late": (lambda a: (a[0] * 3).astype(np.int32), BYTES, [600, 300, 21], "multiply"),
    "as float": (lambda a: (a[0] * 3).astype(np.float32), BYTES, [600, 300, 21], "multiply"),
    "clipped": (lambda a: np.clip(a[0] * 2, 0, 255), BYTES, [255, 200, 14], "multiply"),
    "chosen": (lambda a: np.where(a[0] * 2 > 255, 1, 0), BYTES, [1, 0, 0], "multiply"),
    "einsum": (
        lambda a: np.einsum("nk,mk->nm", a, a)[0],
        CODES,
        [20025, -19990],
        "einsum",
    ),
    "in int16": (
        lambda a: np.einsum("nk,mk->nm", a, a)[1],
        BYTES.to(torch.int16),
        [52085, 127534],
        "einsum",
    ),
    "matmul": (lambda a: (a @ a.T)[0], CODES, [20025, -19990], "matmul"),
    "bits": (lambda a: bits_of(a)[1], BYTES, [300, 800], "matmul"),
    "concatenated": (lambda a: np.concatenate([a[0] * 2, a[1]])[:2], BYTES, [400, 200], "multiply"),
}


@pytest.mark.parametrize("name", WIDE)
def test_arithmetic_has_all_bits(name: str) -> None:
    kernel, tensor, expected, operator = WIDE[name]
    with wide_arrays(is_here) as watch:
        found = kernel(tensor.numpy())
    assert np.asarray(found).tolist() == expected
    assert np.asarray(kernel(tensor.numpy())).tolist() != expected
    assert watch.arrays == 1
    assert watch.first is not None
    assert (watch.first.operator, watch.first.file) == (operator, __file__)
    assert watch.first.exact != watch.first.actual


FEW: dict[str, Callable[[Any], Any]] = {
    "bits": lambda a: (a * 3) & 0xFF,
    "shift": lambda a: (a * 3) >> 1,
    "remainder": lambda a: (a * 3) % 7,
    "cast to fewer bits": lambda a: (a.astype(np.int32) * 3).astype(np.uint8).astype(np.int64),
    "unsigned": lambda a: a.astype(np.uint32) * np.uint32(2**31),
    "memory": lambda a: np.frombuffer((a * 3).tobytes(), dtype=np.uint8),
    "another dtype": lambda a: (a * 3).view(np.int8),
    "an array of its own": into_few_bits,
    "positions": lambda a: a.argsort(axis=1),
    "sum": lambda a: a.sum(axis=1),
    "cumulative sum": lambda a: a.cumsum(),
    "mean": lambda a: a.mean(axis=0),
    "list": lambda a: a.tolist(),
    "counts": lambda a: np.bincount(a.ravel()),
    "unique": lambda a: np.unique(a, return_counts=True)[1],
    "split": lambda a: np.split(a, 3, axis=1)[1],
    "sorted": lambda a: np.sort(a, axis=1),
}


@pytest.mark.parametrize("name", FEW)
def test_what_may_wrap_on_purpose_does(name: str) -> None:
    with wide_arrays(is_here):
        found = FEW[name](BYTES.numpy())
        dtype = getattr(found, "dtype", None)
    expected = FEW[name](BYTES.numpy())
    assert np.asarray(found).tolist() == np.asarray(expected).tolist()
    assert dtype == getattr(expected, "dtype", None)


@pytest.mark.parametrize("tensor", [BYTES.float(), BYTES.long(), BYTES.bool()])
def test_other_arrays_stay(tensor: torch.Tensor) -> None:
    with wide_arrays(is_here) as watch:
        assert type(tensor.numpy()) is np.ndarray
    assert (watch.arrays, watch.first) == (0, None)


def test_torch_takes_wide_arrays() -> None:
    with wide_arrays(is_here):
        found = torch.from_numpy(BYTES.numpy() * 2)
    assert found.tolist() == [[400, 200, 14], [500, 6, 510]]


def test_the_method_is_put_back() -> None:
    before = torch.Tensor.numpy
    with pytest.raises(RuntimeError, match="grad"), wide_arrays(is_here):
        torch.ones(2, requires_grad=True).numpy()
    assert torch.Tensor.numpy is before


def test_the_place_of_an_overflow_is_the_author_s() -> None:
    watch = Watch(lambda file: False)
    watch.note("add", np.array([300]), np.array([44], dtype=np.uint8))
    assert watch.first is not None
    assert (watch.first.file, watch.first.line, watch.first.dtype) == ("", 0, torch.uint8)
