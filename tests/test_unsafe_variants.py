"""Variants that take the process down, with and without a process of their own."""

from __future__ import annotations

import sys

import pytest
from kit import Suite

SOURCE = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("NS::crashes", mutates_args=())
def crashes(x: torch.Tensor, dim: int) -> torch.Tensor:
    if dim < 0:
        ctypes.string_at(0)
    return x.clone()

@torch.library.custom_op("NS::loops", mutates_args=())
def loops(x: torch.Tensor) -> torch.Tensor:
    while x.numel() == 0:
        pass
    return x.clone()

@torch.library.custom_op("NS::grows", mutates_args=())
def grows(x: torch.Tensor) -> torch.Tensor:
    kept = []
    while x.numel() == 0:
        kept.append(bytearray(b"1" * 100_000_000))
    return x.clone()

for op in (crashes, loops, grows):
    op.register_fake(lambda x, *rest: torch.empty_like(x))

@customop_cases("NS::crashes", [(tensor(4, 6), 1)], variants="arguments")
def test_crashes(): ...

@customop_cases("NS::loops", [(tensor(4),)], variants="shape")
def test_loops(): ...

@customop_cases("NS::grows", [(tensor(4),)], variants="shape")
def test_grows(): ...
"""


def outcomes(suite: Suite) -> dict[str, str]:
    """The findings, or outcomes, by test and step."""
    return {
        f"{one['nodeid'].partition('::')[2].partition('[')[0]} {one['sample']}": one["finding"]
        or one["outcome"]
        for one in suite.results()
        if one["outcome"] != "passed"
    }


def run(suite: Suite, *args: str) -> pytest.RunResult:
    suite.test(SOURCE, ops="")
    report = "--customop-report=report.json"
    return suite.run_apart("--customop-variants=quick", report, *args, checks="fake.forward")


def test_a_crash_is_reported_and_the_session_goes_on(suite: Suite) -> None:
    result = run(suite, "--customop-isolate", "--customop-timeout=3", "-k", "not test_grows")
    assert outcomes(suite) == {
        "test_crashes 0~dim.negated": "crash",
        "test_loops 0~empty0": "hang",
    }
    messages = {one["sample"]: one["message"] for one in suite.results() if one["finding"]}
    assert "SIGSEGV" in messages["0~dim.negated"]
    result.stdout.fnmatch_lines(
        [
            "       a variant of the sample: dim=-1, the same dim counted the other way",
            "  *::crashes: 2 tried; 1 failed, 1 ok",
            "    crash  fake.forward: 0~dim.negated",
        ]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux only")
def test_a_variant_that_takes_too_much_memory_is_ended(suite: Suite) -> None:
    run(suite, "--customop-isolate", "--customop-memory=2", "-k", "test_grows")
    assert outcomes(suite) == {"test_grows 0~empty0": "crash"}


def test_what_is_too_risky_is_not_run_in_this_process(suite: Suite) -> None:
    result = run(suite, "-k", "test_crashes")
    assert outcomes(suite) == {
        "test_crashes 0~dim.negated": "skipped",
        "test_crashes 0~dim.0": "skipped",
    }
    result.stdout.fnmatch_lines(
        ["  *::crashes: 0 tried; 2 not run, they could read out of bounds (--customop-isolate *"]
    )


def test_python_that_does_not_come_back_is_ended_in_this_process(suite: Suite) -> None:
    suite.write(
        "conftest.py", "import pytest_customop.run.watchdog as guard\nguard.SECONDS = 1.0\n"
    )
    run(suite, "-k", "test_loops")
    assert outcomes(suite) == {"test_loops 0~empty0": "hang"}
