"""Results that differ by no more than the rounding of their dtype, as double precision shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_customop.cases.rounding import within_rounding

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
    values = [torch.tensor([1 + 1e-3 * one]) for one in (actual, expected)]
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
