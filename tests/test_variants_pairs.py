"""Variants with two or three changes at once: of which steps they are made, and what a failure says."""

from itertools import combinations
from typing import Any, Optional

import pytest
import torch

from pytest_customop import Sample, check_op, tensor
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.declare.ops import resolve
from pytest_customop.declare.variant import KINDS, Variant
from pytest_customop.plan.variants import sample_view
from pytest_customop.plan.variants.ranking import ranked_variants

FLOAT = Placement("cpu", torch.float32, True, "contiguous")


@torch.library.custom_op("t_variants_pairs::mixed", mutates_args=())
def mixed(
    x: torch.Tensor,
    count: int = 2,
    up: bool = False,
    scale: float = 1.0,
    bias: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    if up and scale == 0.5:
        return (x * count).t().contiguous().t()
    return (x * count).contiguous()


mixed.register_fake(lambda x, count=2, up=False, scale=1.0, bias=None: x.new_empty(x.shape))
MIXED = Sample((tensor(4, 6),), id="a")


def near(kinds: Any = KINDS, seed: int = 0) -> list[Variant]:
    """The variants in order."""
    op = resolve(mixed)
    variants = ranked_variants(
        op, MIXED, FLOAT, kinds=kinds, declared_dtypes=False, seed=seed, seen=set()
    )
    return [*variants]


def rows() -> list[list[str]]:
    """The steps of each variant with several changes."""
    return [variant.step.split("+") for variant in near() if variant.kind == "pairs"]


def test_each_has_two_or_three_changes_that_are_tried_alone_too() -> None:
    alone = {variant.step for variant in near() if variant.kind != "pairs"}
    assert 4 < len(rows()) < 9
    for row in rows():
        assert 2 <= len(row) <= 3
        assert {*row} <= alone


def test_few_of_them_have_many_pairs() -> None:
    pairs = {pair for row in rows() for pair in combinations(row, 2)}
    assert len(pairs) > 2 * len(rows())
    assert {"up.true", "transposed"} in map(set, pairs)


def test_no_argument_changes_twice_and_one_changes_at_least() -> None:
    names = ("count", "up", "scale", "bias")
    for row in rows():
        changed = [step.partition(".")[0] for step in row if step.startswith(names)]
        assert changed
        assert len(changed) == len({*changed})


def test_they_are_likely_and_within_the_sample_and_the_same_for_each_seed() -> None:
    variants = [variant for variant in near() if variant.kind == "pairs"]
    assert all(variant.likely and variant.beyond is None for variant in variants)
    assert {variant.step for variant in variants} == {
        variant.step for variant in near(seed=1) if variant.kind == "pairs"
    }


def test_a_tensor_that_is_given_has_the_size_to_which_the_others_change() -> None:
    shapes = {
        variant.step: [
            tuple(tensor.shape)
            for _, tensor in draw(resolve(mixed), variant.sample, FLOAT, 0).tensors()
        ]
        for variant in near()
        if variant.kind == "pairs" and "bias.given" in variant.step and "odd" in variant.step
    }
    assert shapes
    assert all(sizes == [(5, 7), (5, 7)] for sizes in shapes.values()), shapes


def test_without_other_kinds_there_are_none() -> None:
    assert near(kinds=("pairs",)) == []


def test_whole_numbers_are_left_alone_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("count" in step for row in rows() for step in row)
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    assert rows()
    assert not any("count" in step for row in rows() for step in row)


def test_what_two_changes_show_says_both() -> None:
    results = check_op(mixed, [MIXED], checks="fake.forward")
    (failure, *others) = [result for result in results if result.outcome == "failed"]
    assert not [result for result in (failure, *others) if "+" not in str(result.place.variant)]
    assert failure.place.variant == "up.true+scale.half+odd"
    assert "a variant of the sample: up=True; scale=0.5; every size odd" in str(failure)


def test_what_one_change_alone_shows_is_reported_there() -> None:
    @torch.library.custom_op("t_variants_pairs::turned", mutates_args=())
    def turned(x: torch.Tensor, up: bool = False, scale: float = 1.0) -> torch.Tensor:
        return x.t().contiguous().clone().t() if up else x.contiguous().clone()

    turned.register_fake(lambda x, up=False, scale=1.0: x.new_empty(x.shape))
    results = check_op(turned, [MIXED], checks="fake.forward")
    assert [result.place.variant for result in results if result.outcome == "failed"] == ["up.true"]
    (skipped, *_) = [result for result in results if result.skip_code == "as-variant"]
    assert skipped.message == "fake-stride-mismatch, as on variant up.true, where it is reported"
