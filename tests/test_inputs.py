"""Descriptions of arguments: what they accept, and what is drawn from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_customop import GradOptions, Sample, tensor
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.cases.describe import describe
from pytest_customop.declare import ops as ops_module

SIN = ops_module.resolve("aten::add.Tensor")


def drawn(*specs: Any, dtype: torch.dtype = torch.float32, seed: int = 0, **where: Any) -> Any:
    """Two described tensors made real, as arguments of an op that takes two."""
    place = {"device": "cpu", "requires_grad": False, "layout": "contiguous", **where}
    sample = Sample((*specs, tensor(1))[:2])
    return draw(SIN, sample, Placement(dtype=dtype, **place), seed).args


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (3, 4)])
def test_a_shape_in_either_form(shape: tuple[int, ...]) -> None:
    assert tensor(*shape).shape == shape
    assert tensor(shape).shape == shape
    assert tensor(list(shape)).shape == shape
    assert drawn(tensor(*shape))[0].shape == shape


def test_the_shape_of_values() -> None:
    assert tensor(values=[[1, 2, 3], [4, 5, 6]]).shape == (2, 3)
    assert tensor(values=1.5).shape == ()
    assert tensor(values=[]).shape == (0,)


@pytest.mark.parametrize(
    ("positional", "keywords", "reported"),
    [
        ((-1,), {}, "a size is an integer of at least 0, not -1"),
        ((1.5,), {}, "not 1.5"),
        ((True,), {}, "not True"),
        ((3, "4"), {}, "not '4'"),
        ((3,), {"values": [1, 2, 3]}, "give a shape or values=, not both"),
        ((3,), {"fill": 1, "low": 0}, "fill and low/high exclude each other"),
        ((), {"fill": 1, "values": 2}, "values and fill exclude each other"),
        ((3,), {"low": 1, "high": 1}, "low=1 is not below high=1"),
        ((), {"values": [[1], [2, 3]]}, "rows of different lengths"),
    ],
)
def test_a_description_that_cannot_be(positional: Any, keywords: Any, reported: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        tensor(*positional, **keywords)
    assert str(caught.value).startswith("tensor(): ")
    assert reported in str(caught.value)


def test_a_description_reads_as_it_was_written() -> None:
    assert repr(tensor(3, 4)) == "tensor(3, 4)"
    assert repr(tensor(3, low=0, high=1, dtype=torch.int64)) == (
        "tensor(3, dtype=torch.int64, low=0, high=1)"
    )
    assert repr(tensor(values=[1, 2], requires_grad=False)) == (
        "tensor(values=[1, 2], requires_grad=False)"
    )
    assert repr(tensor(2, fill=0.5, layout="strided")) == "tensor(2, fill=0.5, layout='strided')"


def test_descriptions_are_equal_to_themselves_only() -> None:
    first, second = tensor(3), tensor(3)
    assert first == first
    assert first != second
    assert Sample((first,)) != Sample((first,))


def test_a_sample_takes_a_tuple() -> None:
    sample = Sample([tensor(3), [tensor(2), 5]], {"w": tensor(1)}, id="a")
    assert isinstance(sample.args, tuple)
    assert [spec.shape for spec in sample.specs()] == [(3,), (2,), (1,)]
    for wrong in (tensor(3), "ab", 3):
        with pytest.raises(TypeError, match=r"write Sample\(\(x,\)\)"):
            Sample(wrong)  # type: ignore[arg-type]


def test_the_same_seed_draws_the_same_values_and_leaves_the_session_s_stream() -> None:
    before = torch.get_rng_state()
    first, second, third = (drawn(tensor(50), seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(torch.get_rng_state(), before)


def test_two_arguments_of_one_sample_differ() -> None:
    first, second = drawn(tensor(50), tensor(50))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.uint8])
def test_values_lie_in_the_range(dtype: torch.dtype) -> None:
    values = drawn(tensor(1000, low=2, high=5), dtype=dtype)[0]
    assert values.dtype == dtype
    assert float(values.min()) >= 2
    assert float(values.max()) <= 5 if dtype.is_floating_point else float(values.max()) < 5


def test_a_fill_and_given_values() -> None:
    assert drawn(tensor(3, fill=7))[0].tolist() == [7.0] * 3
    assert drawn(tensor(values=[1.5, 2]))[0].tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (tensor(2), torch.float64),
        (tensor(2, dtype=torch.int32), torch.int32),
        (tensor(values=[0.5]), torch.float64),
        (tensor(values=[1]), torch.int64),
        (tensor(values=[True]), torch.bool),
        (tensor(values=[1], dtype=torch.float16), torch.float16),
        (tensor(2, fill=1), torch.float64),
        (tensor(2, fill=True), torch.bool),
    ],
)
def test_the_dtype_of_a_described_tensor(spec: Any, expected: torch.dtype) -> None:
    assert drawn(spec, dtype=torch.float64)[0].dtype == expected


def test_fp8_can_be_drawn() -> None:
    value = drawn(tensor(8, low=0, high=2), dtype=torch.float8_e4m3fn)[0]
    assert value.dtype == torch.float8_e4m3fn


def test_gradients_are_required_where_they_can_be() -> None:
    specs = (tensor(2), tensor(2, dtype=torch.int64))
    assert [value.requires_grad for value in drawn(*specs, requires_grad=True)] == [True, False]
    kept_out = (tensor(2, requires_grad=False), tensor(2))
    assert [value.requires_grad for value in drawn(*kept_out, requires_grad=True)] == [False, True]


def test_strides_in_place_of_a_layout() -> None:
    value, _ = drawn(tensor(3, 4, strides=(1, 3)), tensor(2), layout="strided")
    assert value.stride() == (1, 3)
    assert repr(tensor(3, 4, strides=[1, 3])) == "tensor(3, 4, strides=(1, 3))"
    for wrong in ({"strides": (1,)}, {"strides": (1, 3), "layout": "strided"}):
        with pytest.raises(ValueError, match="strides"):
            tensor(3, 4, **wrong)
    with pytest.raises(TypeError, match="a stride is an integer"):
        tensor(3, 4, strides=(1, -3))


def test_a_tensor_s_own_layout_wins_over_the_case_s() -> None:
    specs = (tensor(3, 4, layout="strided"), tensor(3, 4))
    strided, transposed = drawn(*specs, layout="transposed")
    assert strided.stride() == (8, 2)
    assert transposed.stride() == (1, 3)


def test_real_tensors_that_share_memory_still_do() -> None:
    base = torch.arange(6.0)
    first, second = drawn(base[:4], base[2:])
    first[3] = 100.0
    assert second[1] == 100.0
    assert base[3] == 3.0


def test_a_real_tensor_keeps_its_layout_unless_the_case_has_one() -> None:
    value = torch.arange(12.0).reshape(3, 4).t()
    assert drawn(value)[0].stride() == value.stride()
    strided = drawn(value, layout="strided")[0]
    assert strided.stride() == (6, 2)
    assert torch.equal(strided, value)


def test_gradient_options_have_gradcheck_s_defaults() -> None:
    options = GradOptions()
    assert (options.eps, options.atol, options.rtol) == (1e-6, 1e-6, 1e-5)


def test_values_may_be_a_tensor_or_an_array() -> None:
    spec = tensor(values=torch.tensor([[1, 2], [3, 4]], dtype=torch.int32))
    assert (spec.values, spec.shape, spec.dtype) == ([[1, 2], [3, 4]], (2, 2), torch.int32)
    assert tensor(values=torch.tensor([0.5])).dtype is None
    assert tensor(values=torch.tensor(0.5).numpy()).shape == ()
    assert tensor(values=torch.tensor([True]), dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (tensor(values=[0, 2, 6]), "tensor(values=[0, 2, 6])"),
        (tensor(values=torch.tensor([0.5, 1 / 3])), "tensor(values=[0.5, 0.333333])"),
        (tensor(values=torch.arange(80)), "tensor(80, dtype=torch.int64, low=0, high=80)"),
        (tensor(values=torch.linspace(-1, 2, 90)), "tensor(90, low=-1.0, high=2.0)"),
        (tensor(values=[2**70, 1]), f"tensor(values=[{2**70}, 1])"),
        (tensor(values=torch.ones(9, 9, dtype=torch.bool)), "tensor(9, 9, dtype=torch.bool)"),
    ],
)
def test_many_values_are_described_by_their_range(spec: Any, text: str) -> None:
    assert describe(spec) == text
