"""`relations.precision` in float64: who asks for it gets its digits."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import CheckResult, check_op, tensor


@torch.library.custom_op("t_precision::narrowed", mutates_args=())
def narrowed(x: Tensor) -> Tensor:
    return x.to(torch.complex64 if x.is_complex() else torch.float32).sin().to(x.dtype)


@torch.library.custom_op("t_precision::counted", mutates_args=())
def counted(x: Tensor) -> Tensor:
    return x.round().clamp(-2, 2) / 4


# Its results have as many digits as its inputs, which are cast from float32 in a variant.
@torch.library.custom_op("t_precision::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("t_precision::windowed", mutates_args=())
def windowed(x: Tensor) -> Tensor:
    return x * torch.cos(torch.arange(x.shape[-1]) / 3)


narrowed.register_fake(torch.empty_like)
windowed.register_fake(torch.empty_like)
scaled.register_fake(torch.empty_like)
counted.register_fake(torch.empty_like)


def narrowings(op: Any, sample: Any, **options: Any) -> list[CheckResult]:
    return [
        result
        for result in check_op(op, [sample], checks="relations.precision", **options)
        if result.finding in ("result-narrowed", "gradient-narrowed")
    ]


@torch.library.custom_op("t_precision::unit", mutates_args=())
def unit(x: Tensor) -> Tensor:
    return x / x.square().sum(-1, keepdim=True).sqrt()


@torch.library.custom_op("t_precision::unit_in_float32", mutates_args=())
def unit_in_float32(x: Tensor) -> Tensor:
    return unit(x.float()).to(x.dtype)


# The square of a number that is nearly 1 is 1 in float16, and so is a small rest 0.
@torch.library.custom_op("t_precision::rest", mutates_args=())
def rest(x: Tensor) -> Tensor:
    return 1 - x.tanh()


for custom_op in (unit, unit_in_float32, rest):
    custom_op.register_fake(torch.empty_like)


@pytest.mark.parametrize(
    ("op", "low", "high", "expected"),
    [
        (unit, 200.0, 400.0, ["precision-mismatch"]),
        (unit_in_float32, 200.0, 400.0, []),
        (unit, 1.0, 9.0, []),
        (rest, 5.0, 6.0, []),
    ],
)
def test_what_overflows_and_is_divided_by_is_lost(
    op: Any, low: float, high: float, expected: list[str]
) -> None:
    sample = (tensor(4, 6, dtype=torch.float16, low=low, high=high),)
    results = check_op(op, [sample], checks="relations.precision", variants=False)
    assert [result.finding for result in results if result.outcome == "failed"] == expected


@pytest.mark.parametrize(
    "sample",
    [
        (torch.randn(4, 6, dtype=torch.float64),),
        (torch.randn(4, 6, dtype=torch.complex128),),
        (tensor(4, 6, dtype=torch.float64),),
    ],
    ids=["real", "complex", "described"],
)
def test_tensors_that_say_float64_ask_for_it(sample: Any) -> None:
    (result,) = narrowings(narrowed, sample)
    assert result.outcome == "failed"
    assert not narrowings(counted, sample)


def test_a_table_in_the_default_dtype_is_found() -> None:
    (result,) = narrowings(windowed, (torch.randn(4, 6, dtype=torch.float64),))
    assert result.outcome == "failed"
    assert "torch.set_default_dtype" in result.message


def test_a_list_of_dtypes_asks_for_it() -> None:
    (result,) = narrowings(narrowed, (tensor(4, 6),), dtypes=[torch.float64])
    assert result.outcome == "failed"


def test_where_nothing_asks_for_it_the_default_dtype_is_a_note() -> None:
    sample = (torch.randn(4, 6),)
    (result,) = narrowings(windowed, sample, variants="dtype")
    assert (result.place.variant, result.outcome) == ("float64", "noted")
    for op in (narrowed, counted, scaled):
        assert not narrowings(op, sample, variants="dtype")


@pytest.mark.parametrize(
    ("sample", "options"),
    [
        ((torch.arange(24, dtype=torch.float64).reshape(4, 6),), {}),
        ((torch.randn(4, 6).double(),), {}),
        ((torch.randn(1, dtype=torch.float64),), {}),
        ((torch.randn(4, 6, dtype=torch.float64),), {"tolerances": {torch.float64: (1e-5, 1e-6)}}),
    ],
    ids=["whole numbers", "numbers of float32", "few", "tolerances"],
)
def test_what_shows_nothing_is_left_alone(sample: Any, options: dict[str, Any]) -> None:
    assert not narrowings(narrowed, sample, **options)


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        (windowed, torch.float32, "Tensor-likes are not close"),
        (narrowed, torch.float64, "each number is one of torch.float32"),
        (windowed, torch.float64, "Tensor-likes are not close"),
    ],
)
def test_the_script_shows_it(op: Any, dtype: torch.dtype, message: str, tmp_path: Path) -> None:
    (result,) = narrowings(op, (torch.randn(4, 6, dtype=dtype),))
    script = result.script(sys.modules[__name__])
    assert script is not None
    done = subprocess.run(
        [sys.executable, script.write(tmp_path / "script.py")], capture_output=True, text=True
    )
    assert message in done.stderr
