"""Variants that could take the process down: by default a child process runs them, and nothing else."""

from __future__ import annotations

import sys
from typing import Any

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


def _test(result: dict[str, Any]) -> str:
    name: str = result["nodeid"].partition("::")[2]
    return name.partition("[")[0]


def outcomes(suite: Suite) -> dict[str, str]:
    """The findings, or outcomes, by test and step."""
    return {
        f"{_test(record)} {record['sample']}~{record['variant']}": record["finding"]
        or record["outcome"]
        for record in suite.results()
        if record["outcome"] != "passed" and record["variant"] is not None
    }


def run(
    suite: Suite, *args: str, source: str = SOURCE, checks: str = "fake.forward"
) -> pytest.RunResult:
    suite.test(source, ops="")
    report = "--customop-report=report.json"
    return suite.run_apart("--customop-variants=quick", report, *args, checks=checks)


@pytest.mark.parametrize("more", [(), ("--customop-isolate",), ("-n", "2")], ids=str)
def test_a_crash_is_reported_and_the_session_goes_on(suite: Suite, more: tuple[str, ...]) -> None:
    result = run(suite, *more, "--customop-timeout=10", "-k", "not test_grows")
    assert outcomes(suite) == {
        "test_crashes 0~dim.negated": "crash",
        "test_loops 0~empty0": "hang",
    }
    messages = {
        record["variant"]: record["message"] for record in suite.results() if record["finding"]
    }
    assert "SIGSEGV" in messages["dim.negated"]
    result.stdout.fnmatch_lines(
        [
            "       a variant of the sample: dim=-1, the same dim counted the other way",
            "*::crashes  1 ok  1 failed, 1 ok",
            "  *::crashes: 2 tried; *",
            "  crash  *::crashes  0~dim.negated  fake.forward",
        ]
    )


TWICE = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("NS::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0 or x.shape[0] % 2 == 1:
        ctypes.string_at(0)
    return x.clone()

twice.register_fake(lambda x: torch.empty_like(x))

@customop_cases("NS::twice", [(tensor(4, 6),)], variants="shape")
def test(): ...
"""


def test_after_a_crash_the_next_variant_runs_and_the_call_is_not_tried_again(suite: Suite) -> None:
    suite.test(TWICE, ops="")
    suite.run_apart(
        "--customop-variants=quick",
        "--customop-report=report.json",
        checks="fake.forward,values.mutation",
    )
    by_check: dict[str, dict[str, str]] = {}
    for record in suite.results():
        if record["variant"] is not None:
            by_variant = by_check.setdefault(record["check"], {})
            by_variant[record["variant"]] = record["finding"] or record["outcome"]
    first, second = by_check["fake.forward"], by_check["values.mutation"]
    assert first["empty0"] == first["one0"] == first["odd"] == "crash"
    assert {first[step] for step in first if first[step] != "crash"} == {"passed"}
    assert second["empty0"] == second["one0"] == second["odd"] == "skipped"
    assert "crash" not in second.values()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux only")
def test_a_variant_that_takes_too_much_memory_is_ended(suite: Suite) -> None:
    run(suite, "--customop-isolate", "--customop-memory=2", "-k", "test_grows")
    assert outcomes(suite) == {"test_grows 0~empty0": "crash"}


@pytest.mark.parametrize(
    ("option", "how"),
    [
        ("--customop-isolate=off", "--customop-isolate=auto runs them in a child process"),
        ("--pdb", "a child process runs them without the debugger"),
    ],
)
def test_what_is_too_risky_is_not_run_in_this_process(suite: Suite, option: str, how: str) -> None:
    result = run(suite, option, "-k", "test_crashes")
    assert outcomes(suite) == {
        "test_crashes 0~dim.negated": "skipped",
        "test_crashes 0~dim.0": "skipped",
    }
    result.stdout.fnmatch_lines(
        [f"  *::crashes: 0 tried; 2 not run, they could read out of bounds ({how})*"]
    )


def test_python_that_does_not_come_back_is_ended_in_this_process(suite: Suite) -> None:
    suite.write(
        "conftest.py", "import pytest_customop.core.watchdog as guard\nguard.SECONDS = 1.0\n"
    )
    run(suite, "--customop-isolate=off", "-k", "test_loops")
    assert outcomes(suite) == {"test_loops 0~empty0": "hang"}


PADDED = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

def taken(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    if (slots < 0).any():
        ctypes.string_at(0)
    return x[slots]

def padded(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    \"\"\"Rows. Slots below 0, as -1, are padding.\"\"\"
    return taken(x, slots)

for function in (taken, padded):
    op = torch.library.custom_op(f"NS::{function.__name__}", mutates_args=())(function)
    op.register_fake(lambda x, slots: x.new_empty(*slots.shape, *x.shape[1:]))

SAMPLE = (tensor(4, 6), tensor(values=[3, 1, 3, 0]))

@customop_cases("NS::taken", [SAMPLE], variants="positions")
def test_taken(): ...

@customop_cases("NS::padded", [SAMPLE], variants="positions")
def test_padded(): ...
"""


def test_a_crash_beyond_the_sample_is_a_note(suite: Suite) -> None:
    run(suite, source=PADDED)
    by_test = {
        _test(record): (record["outcome"], record["finding"])
        for record in suite.results()
        if record["variant"] == "slots.has.-1"
    }
    assert by_test == {"test_taken": ("noted", "crash"), "test_padded": ("failed", "crash")}


PICKED = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

def picked(x, slots):
    start = x.detach().contiguous()
    places = [start.data_ptr() + 4 * int(one) for one in slots.flatten()]
    found = [ctypes.c_float.from_address(one).value for one in places]
    return torch.tensor(found).view(slots.shape)

def careless(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    \"\"\"The numbers at some slots.\"\"\"
    return picked(x, slots)

def undocumented(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return picked(x, slots)

def trusting(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    \"\"\"The numbers at some slots, which are not checked.\"\"\"
    return picked(x, slots)

def half_careful(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    if (slots >= x.numel()).any():
        raise IndexError("a slot is out of range")
    return picked(x, slots)

def careful(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    if (slots < 0).any():
        raise IndexError("a slot is negative")
    return half_careful(x, slots)

for function in (careless, undocumented, trusting, half_careful, careful):
    op = torch.library.custom_op(f"NS::{function.__name__}", mutates_args=())(function)
    op.register_fake(lambda x, slots: x.new_empty(slots.shape))

SAMPLE = (tensor(4), tensor(values=[3, 1, 3, 0]))

@customop_cases("NS::careless", [SAMPLE], variants="positions")
def test_careless(): ...

@customop_cases("NS::undocumented", [SAMPLE], variants="positions")
def test_undocumented(): ...

@customop_cases("NS::trusting", [SAMPLE], variants="positions")
def test_trusting(): ...

@customop_cases("NS::half_careful", [SAMPLE], variants="positions")
def test_half_careful(): ...

@customop_cases("NS::careful", [SAMPLE], variants="positions")
def test_careful(): ...
"""


def test_an_op_should_reject_negative_positions_or_say_that_it_does_not_check_them(
    suite: Suite,
) -> None:
    run(suite, source=PICKED, checks="values.bounds")
    by_test = {
        _test(record): (record["outcome"], record["finding"])
        for record in suite.results()
        if record["variant"] == "slots.has.-1"
    }
    assert by_test == {
        "test_careless": ("failed", "out-of-bounds-read"),
        "test_undocumented": ("noted", "out-of-bounds-read"),
        "test_trusting": ("noted", "out-of-bounds-read"),
        "test_half_careful": ("failed", "out-of-bounds-read"),
        "test_careful": ("skipped", None),
    }
