"""Results that differ by no more than the rounding of their dtype, as double precision shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_customop.cases.rounding import (
    relative_spread,
    within_another_order,
    within_rounding,
)

TOLERANCE = (1.3e-6, 1e-5)


@pytest.mark.parametrize(
    ("actual", "expected", "within"),
    [
        (
            30,
            10,
            True,
        ),  # in units of rtol, off the exact value: up to four times as far, and some more
        (50, 10, False),
        (3, 0, True),
        (5, 0, False),
        (60, 1000, True),  # an expected value that is far off leaves room for 16 units at most
        (100, 1000, False),
    ],
)
def test_a_result_may_be_off_by_about_as_much_as_the_expected_one(
    actual: float, expected: float, within: bool
) -> None:
    values = [torch.tensor([1 + 1e-3 * offset]) for offset in (actual, expected)]
    exact = torch.ones(1, dtype=torch.float64)
    assert within_rounding(*values, exact, (1e-3, 0.0)) == within


def test_a_result_far_from_the_exact_one_is_not() -> None:
    expected, exact = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert not within_rounding(torch.tensor([1.0, 2.1]), expected, exact, TOLERANCE)
    assert within_rounding(torch.tensor([1.0, 2.000005]), expected, exact, TOLERANCE)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "exact"),
    [
        ([1.0], [1.0], None),  # nothing to measure by
        ([1.0], [1.0], [1.0, 1.0]),  # another shape
        ([1, 2], [1, 3], [1.0, 2.0]),  # whole numbers are not rounded
        ([NAN, 1.0], [1.0, 1.0], [1.0, 1.0]),  # NaN at one place only
        ([NAN], [NAN], [NAN]),  # nothing finite
        ([1.0], [1.0], [INF]),  # no exact value
    ],
)
def test_what_cannot_be_measured_is_not(actual: Any, expected: Any, exact: Any) -> None:
    wide = None if exact is None else torch.tensor(exact, dtype=torch.float64)
    assert not within_rounding(torch.tensor(actual), torch.tensor(expected), wide, TOLERANCE)


def test_complex_results_are_compared_too() -> None:
    expected = torch.tensor([3 + 4j])
    exact = torch.tensor([3 + 4j], dtype=torch.complex128)
    assert within_rounding(torch.tensor([3.000001 + 4j]), expected, exact, TOLERANCE)
    assert not within_rounding(torch.tensor([3 + 5j]), expected, exact, TOLERANCE)


# Another order of additions


def sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sums of the columns, from the first row on, and from the last."""
    forward, backward = x.new_zeros(x.shape[1:]), x.new_zeros(x.shape[1:])
    for row in x:
        forward += row
    for row in x.flip(0):
        backward += row
    return forward, backward


@pytest.mark.parametrize("rows", [3, 100, 3000])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_another_order_explains_what_it_changes(rows: int, dtype: torch.dtype, low: float) -> None:
    if rows == 3000 and dtype.itemsize == 2:
        return  # hundreds of ones are all that half precision can count
    x = torch.testing.make_tensor(rows, 50, dtype=dtype, device="cpu", low=low, high=1)
    first, second = sums(x)
    assert not torch.equal(first, second) or rows == 3
    assert within_another_order(first, second, [x])


def test_another_order_does_not_lose_an_addend() -> None:
    x = torch.testing.make_tensor(100, 50, dtype=torch.float32, device="cpu", low=0.5, high=1)
    assert not within_another_order(x.sum(0), x[1:].sum(0), [x])


def test_another_order_explains_no_other_kind_of_result() -> None:
    x = torch.ones(3)
    assert not within_another_order(x, x.double(), [x])
    assert not within_another_order(x, torch.ones(4), [x])
    assert not within_another_order(torch.tensor([1]), torch.tensor([2]), [x])
    assert not within_another_order(torch.tensor([NAN]), torch.tensor([1.0]), [x])
    assert not within_another_order(torch.tensor([INF]), torch.tensor([1.0]), [x])
    assert within_another_order(torch.tensor([NAN, INF]), torch.tensor([NAN, INF]), [x])


def test_the_spread_is_relative_to_the_largest_element() -> None:
    first, second = torch.tensor([4.0, 1.0]), torch.tensor([4.0, 2.0])
    assert relative_spread([(first, second)]) == 0.25
    assert relative_spread([(first, first), (1, 2), (torch.ones(1), first)]) == 0.0
