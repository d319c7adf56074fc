"""`fake.data_dependent`: which values are tried, and what is not reported twice."""

import itertools
from typing import Any

import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop import tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.fake.data_dependent import check_data_dependent as check
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import CheckSkipped, Finding

_numbers = itertools.count()


def define(kernel: Any, fake: Any, schema: str = "(Tensor x) -> Tensor") -> str:
    name = f"t_data::op_{next(_numbers)}"
    torch.library.custom_op(name, kernel, mutates_args=(), schema=schema).register_fake(fake)
    return name


def case(name: str, *args: Any, dtype: torch.dtype = torch.float32) -> Case:
    placement = Placement("cpu", dtype, False, "contiguous")
    return Case(ops.resolve(name), Sample(args), placement)


def finding(op_case: Case) -> Finding:
    return verdicts.finding(check, op_case)


def count(**bounds: Any) -> Any:
    return torch.library.get_ctx().new_dynamic_size(**bounds)


def positives(**bounds: Any) -> str:
    return define(lambda x: x[x > 0], lambda x: x.new_empty(count(**bounds)))


@pytest.mark.parametrize(
    ("bounds", "reported"),
    [
        ({"min": 2}, "with x all zeros the real shape is (0,), the fake one (u0 (at least 2),)"),
        ({"min": 1}, "with x all zeros the real shape is (0,), the fake one (u0 (at least 1),)"),
        ({"max": 4}, "with x all ones the real shape is (5,), the fake one (u0 (at most 4),)"),
    ],
)
def test_the_range_and_the_values_are_named(bounds: dict[str, int], reported: str) -> None:
    op_case = case(positives(**bounds), torch.tensor([1.0, -1.0, 2.0, 3.0, -1.0]))
    failure = finding(op_case)
    assert failure.code == "fake-size-range"
    assert reported in failure.message


def test_a_single_hit_is_tried() -> None:
    def kernel(x: Tensor) -> Tensor:
        if not bool(x.any()):
            raise ValueError("nothing there")
        return x.nonzero()[:, 0].contiguous()

    name = define(kernel, lambda x: x.new_empty(count(min=2), dtype=torch.int64))
    assert "zeros and a single 1 the real shape is (1,)" in finding(case(name, tensor(5))).message
    right = define(kernel, lambda x: x.new_empty(count(min=1), dtype=torch.int64))
    check(case(right, tensor(5)))


def test_true_promises_and_fixed_sizes_pass() -> None:
    check(case(positives(), tensor(5)))
    check(case(positives(min=0, max=5), tensor(5)))
    check(case(define(torch.sin, torch.empty_like), tensor(3, 4)))
    check(case(define(torch.sin, torch.empty_like), tensor(3), dtype=torch.complex64))
    check(case(define(torch.clone, torch.empty_like), tensor(3), dtype=torch.float8_e4m3fn))
    nothing = define(lambda x: None, lambda x: None, "(Tensor x) -> ()")
    check(case(nothing, tensor(3)))


def test_numbers_and_lists_that_depend_on_data() -> None:
    def split(x: Tensor) -> list[Tensor]:
        return [x.clone() for _ in range(1 + int(x[0] > 0))]

    name = define(split, lambda x: [torch.empty_like(x)] * 2, "(Tensor x) -> Tensor[]")
    failure = finding(case(name, tensor(3, low=1, high=2)))
    assert failure.code == "fake-size-ignores-data"
    assert "the real kind is absent" in failure.message


def test_integers_may_be_indices_and_are_only_drawn_again() -> None:
    seen = []

    def kernel(x: Tensor, index: Tensor) -> Tensor:
        seen.append(index.tolist())
        return x[index - 1]

    name = define(
        kernel,
        lambda x, index: x.new_empty(index.shape[0], 3),
        "(Tensor x, Tensor index) -> Tensor",
    )
    check(case(name, tensor(4, 3), tensor(2, dtype=torch.int64, low=1, high=4)))
    assert {value for values in seen for value in values} <= {1, 2, 3}
    assert len({tuple(values) for values in seen}) > 1


def test_what_fake_forward_reports_is_not_reported_again() -> None:
    for fake in (lambda x: x.new_empty(7), lambda x: x.item()):
        with pytest.raises(CheckSkipped, match=r"see fake\.forward") as caught:
            check(case(define(torch.sin, fake), tensor(5)))
        assert not caught.value.unjudged


def test_without_values_there_is_nothing_to_change() -> None:
    with pytest.raises(CheckSkipped, match="no tensor argument has values"):
        check(case(define(torch.sin, torch.empty_like), tensor(0, 3)))
