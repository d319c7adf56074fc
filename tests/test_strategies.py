"""`pytest_customop.strategies`: argument lists like an op's samples, for an author's own @given tests."""

import importlib
import importlib.util
import math
import sys
from typing import Any

import pytest
import torch

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from pytest_customop import Sample, tensor
from pytest_customop.declare.mistakes import MarkError
from pytest_customop.fuzz.elements import _coarse
from pytest_customop.strategies import samples, tensors

calm = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


WEIGH = '(Tensor x, Tensor w, int n=2, str mode="sum") -> Tensor'  # torch 2.4 infers no str with a default


@torch.library.custom_op("of_strategies::weigh", mutates_args=(), schema=WEIGH)
def weigh(x: torch.Tensor, w: torch.Tensor, n: int = 2, mode: str = "sum") -> torch.Tensor:
    if n < 0:
        raise ValueError("n is at least 0")
    if mode not in ("sum", "max"):
        raise ValueError(mode)
    return x * w * n


@torch.library.custom_op("of_strategies::pick", mutates_args=())
def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[index]


@torch.library.custom_op("of_strategies::weigh_by", mutates_args=())
def weigh_by(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


LIKE: list[Any] = [
    (tensor(4, 6), tensor(6, low=0, high=1)),
    Sample((tensor(2, 3), tensor(3, low=0, high=1), 3)),
]


@calm
@given(samples("of_strategies::weigh", LIKE))
def test_equal_sizes_stay_equal_and_values_in_their_range(call: Any) -> None:
    x, w = call.args[:2]
    assert x.shape[1:] == w.shape
    assert call().shape == x.shape
    assert not w.numel() or (w.min() >= 0 and w.max() <= 9)


def test_sizes_numbers_strings_layouts_and_values_differ() -> None:
    seen: dict[str, set[Any]] = {"shape": set(), "n": set(), "mode": set(), "dense": set()}

    @settings(calm, max_examples=300)
    @given(samples(weigh, LIKE))
    def gather(call: Any) -> None:
        x = call.args[0]
        seen["shape"].add(tuple(x.shape))
        seen["n"].add(call.args[2] if len(call.args) > 2 else call.kwargs.get("n"))
        seen["mode"].add(call.kwargs.get("mode"))
        seen["dense"].add(x.is_contiguous())

    gather()
    assert len(seen["shape"]) > 10
    assert len(seen["n"]) > 3
    assert "max" in seen["mode"]
    assert seen["dense"] == {True, False}


@calm
@given(samples(weigh_by, [(tensor(4), 2.2), (tensor(3, low=0.1, high=0.3), -1e-3)]))
def test_numbers_with_many_digits(call: Any) -> None:
    assert call().shape == call.args[0].shape


@calm
@given(samples(pick, [(tensor(5, 2), tensor(values=[4, 0, 2]))]))
def test_positions_stay_inside(call: Any) -> None:
    assert call().shape == (*call.args[1].shape, *call.args[0].shape[1:])


def test_what_the_op_rejects_is_left_out_unless_it_is_wanted() -> None:
    def negative(call: Any) -> bool:
        return (call.args[2] if len(call.args) > 2 else call.kwargs.get("n", 2)) < 0

    strategy = samples(weigh, LIKE, within=False, accepted=False)
    call = find(strategy, negative, settings=settings(calm, max_examples=500))
    with pytest.raises(ValueError, match="at least 0"):
        call()

    @calm
    @given(samples(weigh, LIKE, within=False))
    def none_is_negative(call: Any) -> None:
        assert not negative(call)

    none_is_negative()


def test_a_failing_call_is_small_and_prints_as_a_sample() -> None:
    call = find(
        samples(weigh, LIKE, kinds=["shape"]),
        lambda call: call.args[0].numel() > 4,
        settings=settings(calm, max_examples=200),
    )
    text = repr(call)
    assert text.startswith("Sample((tensor(values=")
    pasted = eval(text, {"Sample": Sample, "tensor": tensor, "torch": torch})
    assert [argument.shape for argument in pasted.specs()] == [
        tuple(argument.shape) for argument in call.args[:2]
    ]
    assert call.args[0].numel() <= 12


def test_one_tensor_given_twice_is_one_in_the_text_too() -> None:
    @torch.library.custom_op("of_strategies::add", mutates_args=())
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    call = find(
        samples(add, [(tensor(2), tensor(2))], kinds=["alias"]),
        lambda call: call.args[0] is call.args[1],
        settings=settings(calm, max_examples=200),
    )
    pasted = eval(repr(call), {"Sample": Sample, "tensor": tensor, "torch": torch})
    assert pasted.args[0] is pasted.args[1]


def test_calls_draw_the_same_values_each_time_and_leave_the_random_stream_alone() -> None:
    state = torch.get_rng_state()
    call = find(samples(weigh, LIKE), lambda call: call.args[0].numel() > 0)
    again, _ = call.inputs()
    torch.testing.assert_close(again[0], call.args[0])
    assert again[0] is not call.args[0]
    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_and_dtypes_are_as_asked_for() -> None:
    call = find(samples(weigh, LIKE, dtype=torch.float64, requires_grad=True), lambda call: True)
    assert call.args[0].dtype == torch.float64
    assert call.args[0].requires_grad


def test_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(ValueError, match=r"shapes.*did you mean 'shape'"):
        samples(weigh, LIKE, kinds=["shapes"])
    with pytest.raises(MarkError, match="like is empty"):
        samples(weigh, [])
    with pytest.raises(ValueError, match="low=2 is not below high=1"):
        tensors(3, low=2, high=1)
    with pytest.raises(TypeError, match="a size"):
        tensors(-1)
    with pytest.raises(ValueError, match="unknown layout"):
        tensors(3, layouts=["transpose"])  # type: ignore[list-item]


SIZE = st.shared(st.integers(0, 5), key="n")


@calm
@given(
    tensors(SIZE, 3, low=-1, high=1, layouts=["contiguous", "transposed"]),
    tensors(3, SIZE, dtype=torch.int64, low=0, high=4),
)
def test_tensors(x: torch.Tensor, index: torch.Tensor) -> None:
    assert x.shape == (index.shape[1], 3)
    assert x.dtype == torch.float32
    assert index.dtype == torch.int64
    assert not x.numel() or (x.min() >= -1 and x.max() < 1)
    assert not index.numel() or (index.min() >= 0 and index.max() < 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_no_number_is_rounded_to_the_end_of_the_range(dtype: torch.dtype) -> None:
    almost = math.nextafter(0.3, 0.0)
    assert _coarse(almost, 0.26, 0.3, torch.float64) == almost
    held = torch.tensor(_coarse(almost, 0.26, 0.3, dtype), dtype=dtype)
    assert held < torch.tensor(0.3, dtype=dtype)


def test_without_hypothesis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "hypothesis" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.delitem(sys.modules, "pytest_customop.strategies")
    with pytest.raises(ImportError, match=r"pip install 'pytest-customop\[fuzz\]'"):
        importlib.import_module("pytest_customop.strategies")
