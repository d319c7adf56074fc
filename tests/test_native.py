"""C++ ops and a `torch.library.Library` op, through the whole matrix."""

import collections
from pathlib import Path

import pytest
import torch
from kit import Suite

from pytest_customop import check_op, tensor
from tests.native import ops

pytestmark = pytest.mark.slow

FAMILIES = {"opcheck", "values", "state", "fake", "compile", "gradcheck", "backward", "relations"}

_library = torch.library.Library("zoo_library", "DEF")
_library.define("weighted(Tensor x, Tensor weight) -> Tensor")
_library.impl("weighted", lambda x, weight: x * weight, "CPU")
torch.library.register_fake("zoo_library::weighted", lambda x, weight: torch.empty_like(x))


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    x, weight = ctx.saved_tensors
    return grad * weight, (grad * x).sum(0)


torch.library.register_autograd(
    "zoo_library::weighted", _backward, setup_context=_setup, lib=_library
)

MARKED = """
import torch
from pytest_customop import Sample, customop_cases, tensor

@customop_cases({op!r}, {samples}, dtypes=[torch.float32, torch.float64],
                layouts=["contiguous", "transposed"])
def test_op(customop_case):
    assert isinstance(customop_case(), torch.Tensor)
"""


@pytest.fixture(scope="module")
def native(worker_folder: Path) -> None:
    """The C++ ops, built once per session; workers of xdist wait for the first to build them."""
    why_not = ops.why_not()
    if why_not:
        pytest.skip(why_not)
    ops.build(worker_folder)


def _conforms(suite: Suite, op: str, samples: str) -> None:
    suite.write("test_it.py", MARKED.format(op=op, samples=samples))
    result = suite.run("--customop-report=report.json", checks=None)
    assert result.ret == 0, result.stdout.str()
    outcomes = collections.defaultdict(collections.Counter)
    for record in suite.results():
        outcomes[record["check"].partition(".")[0]][record["outcome"]] += 1
    assert outcomes.keys() - {"own"} == {*FAMILIES, "body"}  # the suite brings checks of its own
    for family, counts in outcomes.items():
        assert counts["passed"] > 0, family
        assert not counts.keys() - {"passed", "skipped"}, family


def test_a_cpp_op_conforms(suite: Suite, native: None) -> None:
    samples = '[(tensor(4, 3), tensor(4, 3)), Sample((tensor(2, 5), tensor(2, 5)), {"scale": 0.5})]'
    _conforms(suite, "zoo_native::dot_rows", samples)


def test_a_library_op_conforms(suite: Suite) -> None:
    _conforms(suite, "zoo_library::weighted", "[(tensor(4, 3), tensor(3))]")


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("op", "check", "finding"),
    [
        ("dot_rows_in_place", "opcheck.test_schema", "undeclared-mutation"),
        ("dot_rows_wide_fake", "fake.forward", "fake-dtype-mismatch"),
        ("dot_rows_wide_fake", "compile.static", "compile-output-mismatch"),
    ],
)
def test_a_broken_cpp_op_is_reported(op: str, check: str, finding: str) -> None:
    samples = [(tensor(4, 3), tensor(4, 3))]
    results = check_op(
        f"zoo_native::{op}",
        samples,
        dtypes=torch.float32,
        requires_grad=False,
        checks=check,
        variants=False,
    )
    assert [(result.check, result.finding) for result in results] == [(check, finding)]


@pytest.mark.usefixtures("native")
def test_a_cpp_op_that_is_registered_without_a_formula_has_none() -> None:
    results = check_op("zoo_native::square_without_formula", [(tensor(4, 3),)])
    assert [str(result) for result in results if result.outcome not in ("passed", "skipped")] == []
    on_variants = [
        result for result in results if result.place.requires_grad and result.place.variant
    ]
    of_gradients = [result for result in on_variants if result.check == "gradcheck.backward"]
    assert {result.skip_code for result in of_gradients} == {"no-formula"}
    on_samples = [
        result for result in results if result.place.requires_grad and result.place.variant is None
    ]
    registration = "opcheck.test_autograd_registration"
    assert {result.outcome for result in on_samples if result.check == registration} == {"passed"}
    assert {result.skip_code for result in on_samples if result.check != registration} == {
        "no-formula"
    }
    assert not any(result.unjudged for result in on_samples)


@pytest.mark.usefixtures("native")
def test_gradients_that_are_asked_of_a_cpp_op_without_a_formula_are_missed() -> None:
    results = check_op(
        "zoo_native::square_without_formula",
        [(tensor(4, 3),)],
        requires_grad=True,
        checks=["backward", "gradcheck"],
        variants=False,
    )
    findings = [(result.check, result.finding) for result in results if result.outcome != "skipped"]
    assert findings == [("backward.connected", "gradients-disconnected")]


@pytest.mark.usefixtures("native")
def test_a_cpp_formula_that_raises_is_reported() -> None:
    results = check_op(
        "zoo_native::square_raising", [(tensor(4, 3),)], checks="gradcheck.backward", variants=False
    )
    assert [result.finding for result in results] == ["backward-raises"]
