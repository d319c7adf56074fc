"""`relations.integer_width`: which numbers are tried, and what is no finding."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import CheckResult, check_op, tensor
from pytest_customop.cases.documented_integers import Range
from pytest_customop.cases.dtype_code import dtype_code
from pytest_customop.checks.relations.integer_width.fills import (
    demanding_fills,
    filled,
    small_fills,
)
from pytest_customop.declare.ops import resolve


@torch.library.custom_op("t_width::midpoint", mutates_args=())
def midpoint(a: Tensor, b: Tensor) -> Tensor:
    return (a + b) // 2


@torch.library.custom_op("t_width::squared", mutates_args=())
def squared(x: Tensor) -> Tensor:
    return (x * x).to(torch.int64)


@torch.library.custom_op("t_width::counted", mutates_args=())
def counted(x: Tensor) -> Tensor:
    return torch.bincount(x.clamp(min=0)).cumsum(0)


@torch.library.custom_op("t_width::strict", mutates_args=())
def strict(x: Tensor) -> Tensor:
    if x.dtype != torch.int8:
        raise TypeError("int8 only")
    return x.to(torch.int32).abs()


for custom_op in (midpoint, squared, counted, strict):
    custom_op.register_fake(lambda x, *rest: torch.empty_like(x))


def run(op: Any, *sample: Any, **options: Any) -> CheckResult:
    (result,) = check_op(op, [sample], checks="relations.integer_width", variants=False, **options)
    return result


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_sum_that_wraps_is_found_in_every_narrow_dtype(dtype: torch.dtype) -> None:
    result = run(midpoint, tensor(4, 6, dtype=dtype), tensor(4, 6, dtype=dtype))
    assert (result.outcome, result.finding) == ("failed", "integer-overflow")


def test_int64_has_no_wider_dtype() -> None:
    result = run(midpoint, tensor(4, dtype=torch.int64), tensor(4, dtype=torch.int64))
    assert result.outcome == "skipped"


def test_no_item_is_made_without_whole_numbers() -> None:
    assert not check_op(midpoint, [(tensor(4), tensor(4))], checks="relations.integer_width")


def test_numbers_stay_in_the_range_of_the_author() -> None:
    small = tensor(4, 6, dtype=torch.uint8, low=0, high=100)
    assert run(midpoint, small, small).outcome == "passed"


def test_numbers_that_the_sample_does_not_show_make_a_note() -> None:
    few = torch.arange(24, dtype=torch.uint8).reshape(4, 6)
    assert run(midpoint, few, few.flip(0)).outcome == "noted"
    many = torch.arange(0, 240, 10, dtype=torch.uint8).reshape(4, 6)
    assert run(midpoint, many, many.flip(0)).outcome == "failed"


def test_a_product_that_wraps_in_int32() -> None:
    result = run(squared, tensor(5, dtype=torch.int32))
    assert "x: 50000 to 50006" in result.evidence


def test_numbers_that_are_sizes_take_no_memory_of_this_process() -> None:
    assert run(counted, tensor(5, dtype=torch.int32)).outcome in ("passed", "skipped")


def test_an_op_that_takes_one_dtype_is_skipped_with_the_reason() -> None:
    result = run(strict, tensor(5, dtype=torch.int8))
    assert result.outcome == "skipped"
    assert "int8 only" in result.message


@torch.library.custom_op("t_width::int16_sums", mutates_args=())
def int16_sums(x: Tensor) -> Tensor:
    if x.dtype != torch.int8:
        raise TypeError("int8 only")
    return (x.to(torch.int16) * x.to(torch.int16)).cumsum(0, dtype=torch.int16).to(torch.int32)


@torch.library.custom_op("t_width::bounded_sums", mutates_args=())
def bounded_sums(x: Tensor) -> Tensor:
    if x.dtype != torch.int8:
        raise TypeError("int8 only")
    return (x.long() * x.long()).cumsum(0).clamp(max=2**15 - 1).to(torch.int32)


int16_sums.register_fake(lambda x: torch.empty_like(x, dtype=torch.int32))
bounded_sums.register_fake(lambda x: torch.empty_like(x, dtype=torch.int32))


def test_small_numbers_predict_sums_of_an_op_that_takes_one_dtype() -> None:
    result = run(int16_sums, tensor(9, dtype=torch.int8))
    assert (result.outcome, result.finding) == ("failed", "integer-overflow")
    assert "as if a sum wraps in 16 bits" in result.message
    few = torch.arange(9, dtype=torch.int8)
    assert run(int16_sums, few).outcome == "noted"
    assert run(int16_sums, tensor(9, dtype=torch.int8, low=0, high=50)).outcome == "skipped"
    assert run(bounded_sums, tensor(9, dtype=torch.int8)).outcome == "skipped"


def test_the_numbers_of_a_fill() -> None:
    limits = [Range(0, 255), Range(-128, 127)]
    like = torch.zeros(5, 4, dtype=torch.int16)
    for fill in small_fills(limits, wide=False):
        for at, numbers in enumerate(fill.numbers):
            values = filled(like, numbers, at)
            assert 0 <= int(values.min()) <= int(values.max()) <= 5
            assert len(values.unique()) > 1
    fills = {
        demanding.name: demanding for demanding in demanding_fills(limits, wide=False, ends=True)
    }
    assert set(fills) == {
        *("near the upper end", "near both ends", "near the lower end"),
        "at the ends",
    }
    first, second = (
        filled(like, end_numbers, at) for at, end_numbers in enumerate(fills["at the ends"].numbers)
    )
    assert set(first.flatten().tolist()) == {0, 255}
    assert set(second.flatten().tolist()) == {-128, 127}
    upper = filled(like, fills["near the upper end"].numbers[0], 0)
    assert 240 < int(upper.min()) < int(upper.max()) < 254
    transposed = filled(like.t(), fills["near the upper end"].numbers[0], 0)
    assert transposed.stride() == like.t().stride()


def op_of(kernel: Any, name: str) -> Any:
    op = torch.library.custom_op(f"t_width::{name}", kernel, mutates_args=())
    op.register_fake(torch.empty_like)
    return op


def mixes(x: Tensor) -> Tensor:
    return (x * 31) % 7


def shifts(x: Tensor) -> Tensor:
    y = x.clone()
    y >>= 2
    return y


def masks(x: Tensor) -> Tensor:
    return x & 0xFF


def both_masks(x: Tensor) -> Tensor:
    return ((x > 1) & (x < 5)).to(x.dtype)


def calls_another(x: Tensor) -> Tensor:
    return shifts(x) + 1


def checks_sizes(x: Tensor) -> Tensor:
    if x.shape[0] % 2 or x.dtype not in (torch.uint8, torch.int64):
        raise ValueError(f"an even number, please: {x.dtype}")
    torch._check(x.dtype != torch.bool)
    return x + 1


def by_dtype(x: Tensor) -> Tensor:
    return x + (1 if x.dtype == torch.uint8 else 2)


def by_limits(x: Tensor) -> Tensor:
    return torch.iinfo(x.dtype).max - x


def says_so(x: Tensor) -> Tensor:
    # Numbers wrap around here on purpose.
    return x + 1


def hash_of_rows(x: Tensor) -> Tensor:
    return x + 1


@pytest.mark.parametrize(
    ("kernel", "wraps", "tells"),
    [
        (mixes, "the operator %", False),
        (shifts, "an operator of bits", False),
        (masks, "a mask of bits", False),
        (both_masks, "", False),
        (calls_another, "an operator of bits", False),
        (checks_sizes, "", False),
        (by_dtype, "", True),
        (by_limits, "", True),
        (says_so, "a comment", False),
        (hash_of_rows, "the name", False),
    ],
)
def test_what_the_code_says(kernel: Any, wraps: str, tells: bool) -> None:
    code = dtype_code(resolve(op_of(kernel, f"says_{kernel.__name__}")))
    assert code.wraps.startswith(wraps)
    assert bool(code.wraps) == bool(wraps)
    assert (code.depends_on_dtype, code.is_known) == (tells, True)
