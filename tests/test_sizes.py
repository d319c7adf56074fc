"""Other sizes for a case: which are tried, and what the real op has to say."""

from typing import Any, Callable

import pytest
import torch

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.cases.resize import changeable, other_sizes, places, resized_at, second_case
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckSkipped

CALLS: list = []


def define(name: str, schema: str, accepts: Callable[..., bool]) -> None:
    def real(*args: Any) -> torch.Tensor:
        CALLS.append(args)
        if not accepts(*args):
            raise ValueError(f"refused {tuple(args[0].shape)}")
        return args[0].clone()

    torch.library.custom_op(f"t_sizes::{name}", real, mutates_args=(), schema=schema)


ONE, TWO = "(Tensor x) -> Tensor", "(Tensor x, Tensor y) -> Tensor"
define("any", ONE, lambda x: True)
define("two", TWO, lambda x, y: True)
define("same", TWO, lambda x, y: x.shape == y.shape)
define("product", TWO, lambda x, y: x.shape[1] == y.shape[0])
define("channels", ONE, lambda x: x.shape[0] == 3)
define("eights", ONE, lambda x: x.shape[0] % 8 == 0)
define("odd", ONE, lambda x: x.shape[0] % 2 == 1)
define("exact", ONE, lambda x: x.shape == (3, 4))
define("rows", "(Tensor x, SymInt n) -> Tensor", lambda x, n: x.shape[0] == n)
define("shape", "(Tensor x, SymInt[] s) -> Tensor", lambda x, s: list(x.shape) == list(s))
torch.library.custom_op(
    "t_sizes::many", lambda xs: xs[0].clone(), mutates_args=(), schema="(Tensor[] xs) -> Tensor"
)


def case_of(name: str, *args: Any, layout: str = "contiguous") -> Case:
    placement = Placement("cpu", torch.float32, False, layout)
    return Case(ops.resolve(f"t_sizes::{name}"), Sample(args), placement)


def shapes(case: Case) -> list:
    return [tuple(value.shape) for _, value in case.eager.arguments.tensors()]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("any", (tensor(3, 4),), [(4, 5)]),
        ("any", (tensor(3, 1, 0, 3),), [(4, 1, 0, 4)]),
        ("two", (tensor(3, 4), tensor(4, 1)), [(4, 5), (5, 1)]),
        ("same", (tensor(3, 4), tensor(3, 4)), [(4, 5), (4, 5)]),
        ("product", (tensor(3, 3), tensor(3, 5)), [(4, 4), (4, 6)]),
        ("channels", (tensor(3, 8),), [(3, 9)]),
        ("channels", (tensor(3, 3),), [(3, 4)]),
        ("eights", (tensor(8, 5),), [(16, 10)]),
        ("odd", (tensor(3, 5),), [(7, 11)]),
    ],
)
def test_a_second_size_is_one_that_the_op_takes(name: str, args: tuple, expected: list) -> None:
    second = second_case(case_of(name, *args))
    assert shapes(second) == expected
    assert second.eager.error is None


def test_ints_are_left_where_they_may_be_and_tied_where_they_must() -> None:
    left = second_case(case_of("rows", tensor(3, 5), 3))
    assert (shapes(left), left.sample.args[1]) == ([(4, 6)], 4)
    whole = second_case(case_of("shape", tensor(2, 3), [2, 3]))
    assert (shapes(whole), whole.sample.args[1]) == ([(3, 4)], [3, 4])
    define("free", "(Tensor x, SymInt n) -> Tensor", lambda x, n: True)
    free = second_case(case_of("free", tensor(3, 5), 3))
    assert (shapes(free), free.sample.args[1]) == ([(4, 6)], 3)


def test_the_layout_stays() -> None:
    second = second_case(case_of("any", tensor(3, 4), layout="transposed"))
    assert second.eager.arguments.args[0].stride() == (1, 4)


def refusal(case: Case) -> CheckSkipped:
    with pytest.raises(CheckSkipped) as caught:
        second_case(case)
    assert caught.value.code == "no-second-size"
    return caught.value


def test_no_second_size_says_why() -> None:
    fixed = refusal(case_of("two", torch.ones(3, 4, dtype=torch.int64), tensor(values=[1, 2])))
    assert "`x`, `y` is given by its values" in fixed.reason
    exact = refusal(case_of("exact", tensor(3, 4)))
    assert "the op takes no other size" in exact.reason
    assert "ValueError: refused" in exact.reason
    ones = refusal(case_of("any", tensor(1, 0)))
    assert not ones.unjudged


def test_what_may_be_tied_to_a_fixed_tensor_stays() -> None:
    fixed = torch.tensor([5, 7, 9])
    case = case_of("two", tensor(3, 4), fixed)
    assert [str(place) for place in changeable(case)] == ["size 4 at dim 1 of `x`"]
    assert shapes(second_case(case)) == [(3, 5), (3,)]
    assert "`y` is given by its values" in refusal(case_of("two", tensor(3, 1), fixed)).reason


def test_sorted_segments_of_rows_take_other_sizes_in_their_order() -> None:
    rows = tensor(5, 8)
    grown = second_case(case_of("two", rows, torch.tensor([0, 0, 2, 6, 6])))
    segments = dict(grown.inputs().tensors())["y"]
    assert shapes(grown) == [(6, 9), (6,)]
    assert segments.tolist() == [0, 0, 0, 2, 6, 6]
    for offsets in ([0, 2, 2, 4, 5], [1, 2, 4, 6, 7], [0, 0, 2, 3, 3]):
        case = case_of("two", tensor(5, 8, 3), torch.tensor(offsets))
        assert 5 not in {place.size for place in changeable(case)}


def test_sizes_that_listed_numbers_may_refer_to_stay() -> None:
    offsets = torch.tensor([0, 1, 5])
    assert [place.size for place in changeable(case_of("two", tensor(5, 8), offsets))] == [8]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64])
def test_whole_numbers_without_an_order_take_other_sizes(dtype: torch.dtype) -> None:
    define("masked", "(Tensor x, Tensor mask) -> Tensor", lambda x, mask: x.shape == mask.shape)
    rows = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 0, 1, 1], [0, 1, 0, 0, 1]]).to(dtype)
    second = second_case(case_of("masked", tensor(3, 5), rows))
    assert shapes(second) == [(4, 6), (4, 6)]
    rising = torch.tensor([0, 1, 1]).to(dtype)
    assert "`y` is given by its values" in refusal(case_of("two", tensor(3, 1), rising)).reason


def test_a_real_floating_point_tensor_is_a_template() -> None:
    template = torch.tensor([[0.25, 0.5, 0.75], [0.5, 0.5, float("nan")]], dtype=torch.float64)
    second = second_case(case_of("two", template, tensor(values=[2.0, 2.0])))
    x, y = second.eager.arguments.args
    assert (x.shape, x.dtype, y.shape) == ((3, 4), torch.float64, (3,))
    assert 0.25 <= float(x.min()) <= float(x.max()) <= 0.75
    assert y.tolist() == [2.0] * 3


def test_a_new_size_does_not_look_like_another_one() -> None:
    """3 -> 4 would tie two sizes that were not: 6 is the first that is free."""
    define("keeps_4", ONE, lambda x: x.shape[1] == 4)
    assert shapes(second_case(case_of("keeps_4", tensor(3, 4)))) == [(6, 4)]


def test_an_unreasonably_large_case_is_not_tried() -> None:
    case = case_of("two", tensor(2**12, 2**11), tensor(2**12))
    CALLS.clear()
    doubled = {place: 8 * place.size for place in places(case)}
    assert resized_at(case, doubled) is None
    assert len(CALLS) == 1  # the sample itself


def test_elements_of_lists_are_places_too() -> None:
    case = case_of("many", [tensor(2, 3), tensor(4, 3)])
    assert str(places(case)[-1]) == "size 3 at dim 1 of `xs[1]`"
    assert shapes(second_case(case)) == [(3, 4), (5, 4)]


def test_other_sizes_gives_one_case_for_each_group_that_the_op_takes() -> None:
    case = case_of("channels", tensor(3, 4))
    channel, width = places(case)
    resized = list(other_sizes(case, [(channel,), (width,), (channel, width)]))
    assert [(group, shapes(changed)) for group, changed in resized] == [((width,), [(3, 5)])]
