"""Arithmetic around an op that returns an argument: `compile.dynamic` reads what goes in and comes out."""

import pytest
import torch

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.compile.harness import HarnessConfig, OpHarness
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from tests.zoo import specimens


def harness(name: str, config: HarnessConfig) -> OpHarness:
    op = ops.resolve(specimens()[name].op())
    place = Placement("cpu", torch.float32, False, "contiguous")
    return OpHarness(Case(op, Sample((tensor(4, 3),)), place), config)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("returns_its_input_in_both_kernels", {"double"}), ("returns_a_copy", {"opaque"})],
)
def test_generated_code_reads_what_an_op_hands_on(name: str, kinds: set[str]) -> None:
    plan = harness(name, HarnessConfig(arithmetic=True)).plan
    assert {kind for _, kind in (*plan.outputs, *plan.after)} == kinds


def test_other_checks_generate_no_code_for_it() -> None:
    plan = harness("returns_its_input_in_both_kernels", HarnessConfig()).plan
    assert [kind for _, kind in plan.outputs] == ["opaque"]
    assert not plan.after
