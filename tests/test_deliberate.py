"""Which exceptions of fake kernels are raised on purpose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch

from pytest_customop import CheckResult, check_op, tensor
from pytest_customop.cases.deliberate import note_if_deliberate
from pytest_customop.core.tracebacks import raised_on_purpose


def raises() -> None:
    raise ValueError("no")


def raises_from_a_lookup() -> None:
    try:
        {}["a"]
    except KeyError as error:
        raise ValueError("no") from error


def raises_in_a_block() -> None:
    with torch.no_grad():
        raise ValueError("no")


def raises_deeper() -> None:
    raises()


def asserts() -> None:
    assert not torch.is_grad_enabled() or not __debug__, "no"


def asserts_without_words() -> None:
    assert [] or ()


def checks() -> None:
    torch._check(False, lambda: "no")


def checks_a_type() -> None:
    torch._check_type(False)


def looks_up() -> None:
    {}["a"]


def indexes() -> None:
    torch.empty(3).shape[5]


def unpacks() -> None:
    a, b = torch.empty(3).shape
    del a, b


def passes_an_unknown_keyword() -> None:
    raises(more=1)  # type: ignore[call-arg]


def gives_a_negative_size() -> None:
    torch.empty(-1)


def hands_on() -> None:
    try:
        torch.empty(-1)
    except RuntimeError:
        raise


def fails_in_a_block() -> None:
    with torch.no_grad():
        {}["a"]


ON_PURPOSE = (
    *(raises, raises_from_a_lookup, raises_in_a_block, raises_deeper),
    *(asserts, asserts_without_words, checks, checks_a_type),
)
BY_MISTAKE = (
    *(looks_up, indexes, unpacks, passes_an_unknown_keyword, gives_a_negative_size),
    *(hands_on, fails_in_a_block),
)


def caught(function: Callable[[], None]) -> Exception:
    with pytest.raises(Exception) as excinfo:  # noqa: PT011 -- of any type
        function()
    return excinfo.value


@pytest.mark.parametrize("function", ON_PURPOSE)
def test_raised_on_purpose(function: Callable[[], None]) -> None:
    assert raised_on_purpose(caught(function))


@pytest.mark.parametrize("function", BY_MISTAKE)
def test_raised_by_mistake(function: Callable[[], None]) -> None:
    assert not raised_on_purpose(caught(function))


# Of a fake kernel


def op(name: str, fake: Any, *, library: bool = False) -> Any:
    """An op with this fake kernel for more than two dims."""

    def call(x: torch.Tensor) -> torch.Tensor:
        if x.dim() > 2:
            fake()
        return torch.empty_like(x)

    if library:
        lib = torch.library.Library("t_deliberate", "FRAGMENT")
        LIBRARIES.append(lib)
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, lambda x: x.clone(), "CPU")
        lib.impl(name, call, "Meta")
        return getattr(torch.ops.t_deliberate, name).default

    @torch.library.custom_op(f"t_deliberate::{name}", mutates_args=())
    def clone(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    clone.register_fake(call)
    return clone


LIBRARIES: list[Any] = []


def batch(of: Any, checks: str, *more: Any) -> CheckResult:
    """The result on the variant with one dim more."""

    def others(variant: Any) -> Optional[str]:
        return None if variant.step == "batch" else "another"

    results = check_op(of, [(tensor(4, 6),)], checks=checks, variants=("full", others, *more))
    assert {result.outcome for result in results if result.place.variant is None} <= {
        "passed",
        "skipped",
    }
    (result,) = (result for result in results if result.place.variant == "batch" and result.check)
    return result


def test_a_fake_kernel_that_raises_on_purpose_is_noted() -> None:
    result = batch(op("purpose", raises), "fake.forward")
    assert (result.outcome, result.skip_code) == ("noted", "refused-on-purpose")
    assert result.finding == "fake-raises"


def test_a_kernel_for_meta_tensors_counts_as_one() -> None:
    result = batch(op("meta", checks, library=True), "fake.forward")
    assert result.skip_code == "refused-on-purpose"


def test_a_mistake_is_none() -> None:
    assert batch(op("mistake", indexes), "fake.forward").skip_code == "beyond-sample"
    assert batch(op("meta_mistake", looks_up, library=True), "fake.forward").skip_code == (
        "beyond-sample"
    )


def test_compiled_code_that_meets_one_is_noted() -> None:
    result = batch(op("compiled", raises_from_a_lookup), "compile.static")
    assert (result.outcome, result.skip_code) == ("noted", "refused-on-purpose")


def test_strict_makes_it_a_failure() -> None:
    assert batch(op("strict", raises), "fake.forward", "strict").outcome == "failed"


def test_on_the_sample_itself_it_is_a_failure() -> None:
    results = check_op(
        op("own", raises), [(tensor(2, 4, 6),)], checks="fake.forward", variants=False
    )
    assert {result.outcome for result in results} == {"failed"}


def test_at_another_size_it_is_noted() -> None:
    @torch.library.custom_op("t_deliberate::three", mutates_args=())
    def three(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @three.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] == 3, lambda: "three rows, please")
        return torch.empty_like(x)

    (result,) = check_op(three, [(tensor(3, 4),)], checks="fake.symbolic", variants=False)
    assert (result.outcome, result.skip_code) == ("noted", "refused-on-purpose")


def test_what_another_package_raises_is_no_purpose() -> None:
    lookup = functools.partial(torch.library.custom_op, "t_deliberate::a b")
    error = caught(lambda: lookup(mutates_args=())(lambda x: x))
    assert note_if_deliberate("t_deliberate::three", error) is None


def test_only_frames_of_the_fake_kernel_count() -> None:
    op("frames", looks_up)
    assert note_if_deliberate("t_deliberate::frames", caught(raises)) is None
