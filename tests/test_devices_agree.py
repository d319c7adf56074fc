"""`devices.agree`: a kernel that is wrong on one device alone, on a second device and on a stand-in for it.

Its findings are "device-mismatch" and "device-gradient-mismatch".
"""

import itertools
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import verdicts
from kit import ABSENT, HEAD, ModuleSuite, Suite
from torch import Tensor

from pytest_customop import check_op, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.devices.agree import check_agree as check
from pytest_customop.compat.version import TORCH
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample
from pytest_customop.findings import WITHIN_ROUNDING
from tests.native.ops import why_not

_numbers = itertools.count()


def define(kernel: Any, schema: str = "(Tensor x) -> Tensor", backward: Any = None) -> ops.Op:
    name = f"t_agree::op_{next(_numbers)}"
    mutates = re.findall(r"Tensor\(a!\) (\w+)", schema)
    torch.library.custom_op(name, kernel, mutates_args=mutates, schema=schema)
    if backward is not None:
        torch.library.register_autograd(
            name, backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        )
    return ops.resolve(name)


@dataclass(frozen=True, eq=False)
class TwoOps(Case):
    """A case on the CPU whose reference device runs another op."""

    other: Any = None

    def on_device(self, device: str) -> Case:
        return Case(self.other, self.sample, self.placement, seed=self.seed)


def case(
    here: ops.Op,
    there: ops.Op,
    *args: Any,
    gradients: bool = False,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> Case:
    placement = Placement("cpu", dtype, gradients, "contiguous", switch_real=True)
    sample = Sample(args or (torch.linspace(0.1, 0.9, 12).view(4, 3),))
    return TwoOps(here, sample, placement, reference_device="cpu", other=there, **options)


def test_equal_results() -> None:
    check(case(define(lambda x: x.exp()), define(lambda x: x.exp() + 1e-7)))


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        (lambda x: x.exp() * 1.01, "12 of 12 elements differ"),
        (lambda x: x.exp().double(), "dtype torch.float64 instead of torch.float32"),
        (lambda x: x.exp()[:-1].clone(), "shape (3, 3) instead of (4, 3)"),
        pytest.param(
            lambda x: x.exp().to_sparse(),
            "layout sparse_coo instead of strided",
            marks=pytest.mark.skipif(TORCH < (2, 5), reason="torch 2.4 lets no op return it"),
        ),
        (lambda x: x.exp() * float("nan"), "nan instead of"),
    ],
)
def test_other_results(wrong: Any, reported: str) -> None:
    finding = verdicts.finding(check, case(define(wrong), define(lambda x: x.exp())))
    assert finding.code == "device-mismatch"
    assert reported in finding.message
    assert finding.note is None


def test_a_number_that_is_returned() -> None:
    schema = "(Tensor x) -> (Tensor, int)"
    here = define(lambda x: (x.clone(), 3), schema)
    there = define(lambda x: (x.clone(), 4), schema)
    assert "output 1: 3 instead of 4" in verdicts.finding(check, case(here, there)).message


def test_a_list_of_another_length() -> None:
    schema = "(Tensor x) -> Tensor[]"
    here = define(lambda x: [x.clone(), x + 1], schema)
    there = define(lambda x: [x.clone()], schema)
    finding = verdicts.finding(check, case(here, there))
    assert "output[1] on cpu, none on cpu" in finding.message


def add_one(x: Tensor) -> None:
    x.add_(1)


def test_an_argument_that_is_written() -> None:
    schema = "(Tensor(a!) x) -> ()"
    right, wrong = define(add_one, schema), define(lambda x: None, schema)
    zeros = torch.zeros(3)
    check(case(right, right, zeros))
    finding = verdicts.finding(check, case(wrong, right, zeros))
    assert "argument x after the call: 3 of 3 elements differ" in finding.message


def test_a_workspace_is_not_compared() -> None:
    schema = "(Tensor(a!) workspace, Tensor x) -> Tensor"

    def with_workspace(workspace: Tensor, x: Tensor) -> Tensor:
        return workspace.fill_(1) + x

    def without(workspace: Tensor, x: Tensor) -> Tensor:
        return x + 1

    args = torch.zeros(3), torch.zeros(3)
    check(case(define(with_workspace, schema), define(without, schema), *args))


def scaled(factor: float) -> Any:
    return lambda ctx, grad: grad * ctx.saved_tensors[0].exp() * factor


def test_another_gradient() -> None:
    right = define(lambda x: x.exp(), backward=scaled(1))
    check(case(right, define(lambda x: x.exp(), backward=scaled(1)), gradients=True))
    wrong = define(lambda x: x.exp(), backward=scaled(1.01))
    finding = verdicts.finding(check, case(wrong, right, gradients=True))
    assert finding.code == "device-gradient-mismatch"
    assert "the gradient of x: 12 of 12 elements differ" in finding.message


def test_no_gradient_is_zeros_and_nothing_else() -> None:
    none = define(lambda x: x.sign(), backward=lambda ctx, grad: None)
    zeros = define(lambda x: x.sign(), backward=lambda ctx, grad: torch.zeros_like(grad))
    ones = define(lambda x: x.sign(), backward=lambda ctx, grad: torch.ones_like(grad))
    check(case(none, zeros, gradients=True))
    finding = verdicts.finding(check, case(none, ones, gradients=True))
    assert "the gradient of x: None instead of a tensor" in finding.message


def test_an_op_without_a_formula_has_no_gradients_to_compare() -> None:
    check(case(define(lambda x: x.exp()), define(lambda x: x.exp()), gradients=True))


# Its sum is some 50. Rounding explains a difference of 0.001 there, and not one of 1.
MANY = torch.linspace(-1, 1.001, 100_000)


def summed(x: Tensor) -> Tensor:
    return x.to(torch.float32).sum().reshape(1)


def test_another_order_of_additions_is_a_note() -> None:
    finding = verdicts.finding(
        check, case(define(lambda x: summed(x) + 1e-3), define(summed), MANY)
    )
    assert finding.note == WITHIN_ROUNDING
    assert "output differs by rounding: the value differs" in finding.message
    assert (
        verdicts.finding(check, case(define(lambda x: summed(x) + 1), define(summed), MANY)).note
        is None
    )


def test_a_failure_comes_before_a_note() -> None:
    schema = "(Tensor x) -> (Tensor, Tensor)"
    right = define(lambda x: (summed(x), x + 1), schema)
    wrong = define(lambda x: (summed(x) + 1e-3, x + 2), schema)
    finding = verdicts.finding(check, case(wrong, right, MANY))
    assert finding.note is None
    assert "output 1" in finding.message


def test_the_tolerances_of_the_mark() -> None:
    near, right = define(lambda x: x.exp() * 1.01), define(lambda x: x.exp())
    check(case(near, right, tolerances={torch.float32: (0.1, 0.0)}))


def test_an_op_that_draws_random_numbers() -> None:
    noise = define(lambda x: x + torch.rand(x.shape))
    negative = define(lambda x: x - torch.rand(x.shape))
    assert verdicts.skipped(check, case(noise, negative)).code == "nondeterministic"


def test_an_op_that_raises_on_the_first_device() -> None:
    def raising(x: Tensor) -> Tensor:
        raise NotImplementedError("not here")

    reason = verdicts.skipped(check, case(define(lambda x: x.exp()), define(raising)))
    assert (reason.code, reason.unjudged) == ("nothing-to-check", False)


def test_no_item_where_a_mark_runs_on_one_device() -> None:
    op = define(lambda x: x.exp())
    checks = ["devices.agree", "values.repeat"]
    results = check_op(op.overload, [(tensor(3),)], checks=checks, variants=False)
    assert {result.check for result in results} == {"values.repeat"}


COLLECTED = """
def left_out(cell):
    return "not on the CPU" if cell.device == "cpu" else None

@customop_cases(plain, [(tensor(3),)])
def test_op(): ...

@customop_cases(plain, [(tensor(3),)], requires_grad=False, skip_if=left_out)
def test_left_out(): ...
"""


def test_an_item_on_each_device_but_the_first(suite: Suite) -> None:
    suite.write("conftest.py", "def pytest_customop_device_available(device): return True\n")
    suite.test(COLLECTED)
    devices = f"--customop-devices={ABSENT},cpu"
    ids = suite.ids(devices, checks="devices.agree")
    assert ids == [
        f"test_op[{ABSENT}-float32-nograd-0-devices.agree]",
        "test_left_out[cpu-float32-nograd-0]",  # the reason why the case is left out there
    ]


CONFTEST = """
from pathlib import Path
from tests.second_device import device

device.register(Path({folder!r}))
"""
OPS = '''
def op(name, here, there=None, schema="(Tensor x) -> Tensor", formula=None, tags=()):
    """An op whose kernel on the second device is `there`, on tensors of the CPU."""
    LIBRARY.define(f"{name}{schema}", tags=tags)

    @torch.no_grad()
    def elsewhere(*args):
        given = [one.cpu() if isinstance(one, torch.Tensor) else one for one in args]
        result = (there or here)(*given)
        for one, copy in zip(args, given):
            if "(a!)" in schema and isinstance(one, torch.Tensor):
                one.copy_(copy)
        return None if result is None else result.to("second")

    LIBRARY.impl(name, torch.no_grad()(here), "CPU")
    LIBRARY.impl(name, elsewhere, "PrivateUse1")
    if "->" in schema and "()" not in schema:
        torch.library.register_fake(f"NS::{name}", torch.empty_like, lib=LIBRARY)
    if formula is not None:
        torch.library.register_autograd(
            f"NS::{name}", formula, lib=LIBRARY,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
    return getattr(torch.ops, LIBRARY.ns), name

LIBRARY = torch.library.Library("NS::".strip(":"), "DEF")

def add_one(x):
    x.add_(1)

def right(ctx, grad):
    return grad * ctx.saved_tensors[0].cos()

def wrong_there(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.cos() * (2 if x.device.type == "second" else 1)

OPS = {
    "right": dict(here=torch.sin, formula=right),
    "wrong_there": dict(here=torch.sin, there=torch.cos),
    "gradient_wrong_there": dict(here=torch.sin, formula=wrong_there),
    "written": dict(here=add_one, schema="(Tensor(a!) x) -> ()"),
    "not_written_there": dict(
        here=add_one, there=lambda x: None, schema="(Tensor(a!) x) -> ()"
    ),
    "other_branch_there": dict(here=torch.clone, there=lambda x: x.clone() if len(x) == 4 else x + 1),
    "random": dict(here=lambda x: x + torch.rand(x.shape), there=lambda x: x - torch.rand(x.shape)),
    "random_and_tagged": dict(
        here=lambda x: x + torch.rand(x.shape), there=lambda x: x - torch.rand(x.shape),
        tags=(torch.Tag.nondeterministic_seeded,),
    ),
}
'''
MARKED = """
for name, given in OPS.items():
    op(name, **given)

def marked(name, **options):
    @customop_cases(f"NS::{name}", [(tensor(4, 3),)], **options)
    def test(): ...

    return test

for name in OPS:
    globals()[f"test_{name}"] = marked(name)

test_one_device = marked("wrong_there", devices=["second"])
test_left_out = marked(
    "wrong_there", skip_if=lambda cell: "not on the CPU" if cell.device == "cpu" else None
)
"""


@dataclass(frozen=True)
class TwoDevices:
    """What `devices.agree` says of each op on the CPU and on the second device.

    Args:
        suite: its folder has the scripts, and a conftest that registers the device.
        results: of the report.
    """

    suite: ModuleSuite
    results: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The results of one test."""
        return [
            result
            for result in self.results
            if result["nodeid"].startswith(f"test_it.py::test_{name}[")
        ]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> TwoDevices:
    """A session on the CPU and on the second device."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    suite = ModuleSuite(tmp_path_factory.mktemp("suite"), "second_device")
    folder = tmp_path_factory.mktemp("second_device")
    suite.write("conftest.py", CONFTEST.format(folder=str(folder)))
    suite.write("test_it.py", HEAD + OPS + MARKED)
    ran = suite.run(
        "--customop-devices=cpu,second",
        "--customop-variants=quick",
        "--customop-report=report.json",
        "--customop-repro-dir=scripts",
        checks="devices.agree",
    )
    assert ran.ret == pytest.ExitCode.TESTS_FAILED, ran.stdout.str() + ran.stderr.str()
    return TwoDevices(suite, suite.results())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["right", "written", "random_and_tagged"])
def test_an_op_that_agrees_on_the_second_device(two: TwoDevices, name: str) -> None:
    results = two.of(name)
    assert {result["device"] for result in results} == {"second"}  # nothing to compare the CPU with
    assert {result["outcome"] for result in results} <= {"passed", "skipped"}
    assert any(result["outcome"] == "passed" and not result["variant"] for result in results)
    assert any(result["outcome"] == "passed" and result["variant"] for result in results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("wrong_there", "device-mismatch"),
        ("not_written_there", "device-mismatch"),
        ("gradient_wrong_there", "device-gradient-mismatch"),
    ],
)
def test_an_op_that_is_wrong_on_the_second_device(two: TwoDevices, name: str, code: str) -> None:
    failures = [result for result in two.of(name) if result["outcome"] == "failed"]
    assert {result["finding"] for result in failures} == {code}
    assert {result["variant"] for result in failures} == {
        None
    }  # those of the sample are reported on it alone


@pytest.mark.slow
def test_only_a_variant_shows_what_is_wrong_on_the_second_device(two: TwoDevices) -> None:
    results = [
        result
        for result in two.of("other_branch_there")
        if result["outcome"] in ("failed", "noted")
    ]
    assert results
    assert all(result["variant"] for result in results)


@pytest.mark.slow
def test_random_numbers_on_the_second_device(two: TwoDevices) -> None:
    results = [result for result in two.of("random") if not result["variant"]]
    assert {result["outcome"] for result in results} == {"skipped"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one_device", "left_out"])
def test_no_item_where_there_is_nothing_to_compare_with(two: TwoDevices, name: str) -> None:
    assert [result for result in two.of(name) if result["check"] == "devices.agree"] == []


@pytest.mark.slow
def test_the_scripts_show_it_by_plain_torch_calls(two: TwoDevices) -> None:
    scripts = sorted((two.suite.path / "scripts").glob("*.py"))
    assert len(scripts) >= 4
    for script in scripts:
        ran = subprocess.run(
            [sys.executable, "-c", f"import conftest, runpy; runpy.run_path({str(script)!r})"],
            cwd=two.suite.path,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 1, (script.name, ran.stdout)
        assert "AssertionError" in ran.stderr, ran.stderr
