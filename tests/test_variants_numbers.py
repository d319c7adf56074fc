"""Variants of sizes that change together with the numbers of the sample which are equal to them."""

from typing import Any, List

import pytest
import torch

from pytest_customop import Sample, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.declare.ops import resolve
from pytest_customop.declare.variant import Variant
from pytest_customop.plan.variants import sample_view
from pytest_customop.plan.variants.ranking import ranked_variants

FLOAT = Placement("cpu", torch.float32, True, "contiguous")


@torch.library.custom_op("t_variants_numbers::heads", mutates_args=())
def heads(x: torch.Tensor, count: int, sizes: List[int]) -> torch.Tensor:
    return x.clone()


HEADS = resolve(heads)


def sample(count: int, sizes: list[int], *shape: int) -> Sample:
    return Sample((tensor(*shape), count, sizes), id="a")


def near(op: Any, example: Sample) -> dict[str, Variant]:
    """Its variants of sizes, by the names of their steps, in order."""
    kinds = ("shape", "large")
    variants = ranked_variants(
        op, example, FLOAT, kinds=kinds, declared_dtypes=False, seed=0, seen=set()
    )
    return {variant.step: variant for variant in variants}


def changed(variant: Any) -> tuple[Any, ...]:
    x, count, sizes = variant.sample.args
    return (*x.shape, count, sizes)


def test_numbers_change_with_the_sizes_that_they_are_equal_to() -> None:
    variants = near(HEADS, sample(6, [4, 5], 4, 6))
    assert changed(variants["odd_with_numbers"]) == (5, 7, 7, [5, 5])
    assert changed(variants["one1_with_numbers"]) == (4, 1, 1, [4, 5])
    assert changed(variants["large0_with_numbers"])[2] == 6
    assert variants["odd_with_numbers"].beyond is None
    assert "as a number" in (variants["odd"].beyond or "")
    assert [*variants].index("odd_with_numbers") < [*variants].index("odd")


def test_no_number_becomes_zero() -> None:
    variants = near(HEADS, sample(6, [4, 5], 4, 6))
    assert "empty0" in variants
    assert "empty0_with_numbers" not in variants


def test_numbers_that_no_size_equals_are_left_alone() -> None:
    assert not [step for step in near(HEADS, sample(7, [8], 4, 6)) if "numbers" in step]


def test_a_list_of_sizes_that_change_counts_the_elements_that_there_are_then() -> None:
    variants = near(HEADS, sample(2, [4, 6], 4, 6))
    assert variants["odd_with_numbers"].beyond is None
    assert "as a number" in (variants["odd"].beyond or "")


@pytest.mark.parametrize(("other", "within"), [(9, True), (12, False), (18, False)])
def test_a_native_kernel_gets_no_number_that_its_multiples_may_not_fit(
    other: int, within: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = sample(6, [other], 4, 6)
    assert near(HEADS, example)["one1_with_numbers"].beyond is None
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    beyond = near(HEADS, example)["one1_with_numbers"].beyond
    assert (beyond is None) is within, beyond
