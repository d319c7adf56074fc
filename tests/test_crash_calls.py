"""A check may call the op on other arguments than the case's: of a crash there, those are shown."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from kit import Suite
from torch._subclasses.fake_tensor import FakeTensorMode

from pytest_customop.cases.arguments import Arguments
from pytest_customop.declare.ops import resolve
from pytest_customop.plugin.child import last_call

OPS = """
import ctypes

@torch.library.custom_op("NS::packed", mutates_args=())
def packed(x: torch.Tensor, n: int = 1) -> torch.Tensor:
    if not x.is_contiguous():
        ctypes.string_at(0)
    return x * n

packed.register_fake(lambda x, n=1: torch.empty_like(x))

@torch.library.custom_op("NS::third", mutates_args=())
def third(x: torch.Tensor) -> torch.Tensor:
    calls.append(0)
    if len(calls) == 3:
        ctypes.string_at(0)
    return x.clone()

@torch.library.custom_op("NS::slope", mutates_args=())
def slope(x: torch.Tensor) -> torch.Tensor:
    return x.sin()

slope.register_fake(lambda x: torch.empty_like(x))
slope.register_autograd(lambda ctx, grad: ctypes.string_at(0))

calls = []
third.register_fake(lambda x: torch.empty_like(x))
"""


def test_the_layout_that_dies_is_shown_with_a_script_and_a_sample(suite: Suite) -> None:
    suite.test(
        OPS + "@customop_cases(packed, [(tensor(4, 6), 2)], variants=False)\ndef test_it(): ...\n"
    )
    result = suite.run_apart(
        *("--customop-isolate=on", "--customop-repro-dir=repros", "--customop-report=report.json"),
        checks="values.layouts",
    )
    result.assert_outcomes(failed=1)
    (record,) = suite.results()
    assert record["finding"] == "crash"
    assert record["message"].endswith("::packed dies of SIGSEGV under values.layouts")
    assert "strides (" in record["arguments"][0]
    assert record["arguments"][1] == "n = 2"
    assert 'layout="transposed"), 2), id="crash")' in record["evidence"]
    (script,) = (suite.path / "repros").glob("*.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == -11, done.stderr


@pytest.mark.parametrize("check", ["fake.backward", "gradcheck.backward"])
def test_the_script_of_a_backward_that_dies_calls_it(suite: Suite, check: str) -> None:
    sample = "(tensor(4, requires_grad=True),)"
    suite.test(OPS + f"@customop_cases(slope, [{sample}], variants=False)\ndef test_it(): ...\n")
    result = suite.run_apart("--customop-isolate=on", "--customop-repro-dir=repros", checks=check)
    result.assert_outcomes(failed=1)
    (script,) = (suite.path / "repros").glob("*.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == -11, done.stderr


def test_a_call_with_the_case_s_own_arguments_is_shown_as_the_case(suite: Suite) -> None:
    suite.test(OPS + "@customop_cases(third, [(tensor(4),)], variants=False)\ndef test_it(): ...\n")
    result = suite.run_apart(
        "--customop-isolate=on", "--customop-report=report.json", checks="values.repeat"
    )
    result.assert_outcomes(failed=1)
    (record,) = suite.results()
    assert record["arguments"] == ["x = tensor(4): float32[4]"]
    assert "as a sample" not in record["evidence"]


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_the_variant_that_dies_under_a_check_is_shown_so_too(
    suite: Suite, workers: tuple[str, ...]
) -> None:
    suite.test(
        OPS
        + "@customop_cases(packed, [(tensor(4, 6),)], variants=['arguments'])\ndef test_it(): ...\n"
    )
    suite.run_apart(
        *("--customop-isolate=on", "--customop-report=report.json", "--customop-variants=quick"),
        *("-k", "variants", *workers),
        checks="values.mutation",
    )
    failures = [record for record in suite.results() if record["outcome"] == "failed"]
    assert failures
    for record in failures:
        assert record["finding"] == "crash"
        assert "strides (" in record["arguments"][0]


def test_a_call_with_fake_tensors_is_not_sent() -> None:
    sent: list[bytes | None] = []
    x = torch.tensor([1, 2, 3])
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        last_call.sender(sent.append)(Arguments(resolve("aten::neg"), (fake,), {}))
    assert not sent
    last_call.sender(sent.append)(Arguments(resolve("aten::neg"), (x,), {}))
    assert len(sent) == 1
