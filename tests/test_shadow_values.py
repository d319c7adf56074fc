"""Shadow values: numbers that overflow in a torch operator are followed to what depends on them."""

import linecache
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_customop.compat.shadow_values import Followed, ShadowValues

HERE = __file__
LARGE = torch.tensor([1, 70_000], dtype=torch.int32)
BYTES = torch.tensor([100, 200], dtype=torch.uint8)


def followed(kernel: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Followed | None:
    """What is known of the result of some torch operators."""
    shadows = ShadowValues(lambda file: file == HERE)
    with torch.no_grad(), shadows:
        result = kernel(*(tensor.clone() for tensor in inputs))
    return shadows.overflow_in(result)


def exact(kernel: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Any:
    """The numbers that the result would have; None if nothing that overflowed changed it."""
    found = followed(kernel, *inputs)
    return None if found is None or found.exact is None else found.exact.tolist()


def test_a_product_that_wraps_is_followed_through_a_cast() -> None:
    found = followed(lambda x: (x * x).to(torch.int64), LARGE)
    assert found is not None
    assert found.exact is not None
    assert found.exact.tolist() == [1, 4_900_000_000]
    assert found.cause.dtype == torch.int32
    assert (found.cause.exact, found.cause.actual) == (4_900_000_000, 4_900_000_000 - 2**32)
    assert found.cause.file == HERE
    assert "(x * x)" in linecache.getline(HERE, found.cause.line)


def test_the_calls_of_an_op_inside_of_an_op_are_seen() -> None:
    @torch.library.custom_op("t_shadow_values::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return (x * x).to(torch.int64)

    @torch.library.custom_op("t_shadow_values::outer", mutates_args=())
    def outer(x: torch.Tensor) -> torch.Tensor:
        return square(x) + 1

    assert exact(outer, LARGE) == [2, 4_900_000_001]


def _through_views(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, 2, dtype=torch.int32)
    out[:, 1] = x
    out[1].mul_(x[1])
    return out.t().reshape(-1).to(torch.int64)


def _cleared(x: torch.Tensor) -> torch.Tensor:
    out = x * x
    out.zero_()
    return out.long()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda x: (x + x - x).long(), None),  # it wraps, and wraps back
        (lambda x: torch.where(x > 200, x + x, x), None),
        (_cleared, None),
        (lambda x: ((x + x) & 255).long(), None),
        (lambda x: ((x + x) ^ 1).long(), None),
        (lambda x: ((x + x) % 7).long(), None),
        (lambda x: (x.long() * 300).to(torch.uint8).long(), None),  # a cast on purpose
        (lambda x: (x.long() * 300).to(torch.uint8).add(250).long(), [298, 346]),
        (lambda x: (x + x).long(), [200, 400]),
        (lambda x: (x + x) // 2, [100, 200]),
        (lambda x: (x - 150).abs().float(), [50.0, 50.0]),
        (lambda x: torch.stack([x + x, x]).float().sum(0), [300.0, 600.0]),
    ],
)
def test_only_what_reaches_a_result_counts(kernel: Any, expected: list[float] | None) -> None:
    assert exact(kernel, BYTES) == expected


def test_writes_into_views_are_followed() -> None:
    assert exact(_through_views, LARGE) == [0, 0, 1, 4_900_000_000]


def test_the_factor_of_a_hash_may_wrap() -> None:
    assert exact(lambda x: (x * 1_664_525 + 1_013_904_223).double(), LARGE) is None
    assert exact(lambda x: (x * 1_000_003).long(), LARGE) is None
    assert exact(lambda x: (x * 1_000_000).long(), LARGE) == [10**6, 7 * 10**10]
    assert exact(lambda x: (x * 320_001).long(), LARGE) == [320_001, 70_000 * 320_001]  # a size


def test_other_sizes_are_told() -> None:
    found = followed(lambda x: x[(x + x) > 250], BYTES)
    assert found is not None
    assert found.exact is None
    assert found.sizes == (1,)


def test_float16_that_becomes_infinite_has_float32_shadows() -> None:
    x = torch.tensor([1.0, 300.0], dtype=torch.float16)
    assert exact(lambda x: (x * x).sqrt(), x) == [1.0, 300.0]
    assert exact(lambda x: torch.softmax(x * -math.inf, 0), x) is None
    assert exact(lambda x: x / 3, x) is None  # rounding does not count


def test_float32_that_comes_from_integers_loses_digits() -> None:
    x = torch.full((300,), 2**16 + 1, dtype=torch.int64)
    wrong = exact(lambda x: (x.float() * 257).to(torch.int64).sum(), x)
    assert wrong == (2**16 + 1) * 257 * 300
    assert exact(lambda x: (x.float() * 0.5).to(torch.int64).sum(), x) is None
    assert exact(lambda x: x.float().mul_(0.5).mul_(257).to(torch.int64).sum(), x) is None


def test_arguments_stay_as_they_are() -> None:
    x = LARGE.clone()
    shadows = ShadowValues(lambda file: file == HERE)
    with shadows:
        result = (x * x).float().div_(2)
    assert x.tolist() == [1, 70_000]
    assert result.tolist() == [0.5, (4_900_000_000 - 2**32) / 2]
