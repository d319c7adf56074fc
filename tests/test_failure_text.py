"""A failure reads well: code, op, check, case, arguments, evidence, fix, and how to rerun it."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from kit import HEAD, Suite, assert_no_plugin_frames
from snapshot import Snapshot


def failure(result: pytest.RunResult, nodeid: str) -> list[str]:
    """The lines of one item's failure."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.strip("_ ") == nodeid and "__" in line)
    rest = lines[start + 1 :]
    ends = (i for i, line in enumerate(rest) if line.startswith(("____", "====")))
    return rest[: next(ends, len(rest))]


def test_a_finding_in_full(suite: Suite, snapshot: Snapshot) -> None:
    suite.test("""
@customop_cases(
    scale, [Sample((tensor(3, low=0), 2), id="wide")], checks="own.fails", requires_grad=True
)
def test_scale(): ...
""")
    result = suite.run("--customop-seed=5", checks=None)
    nodeid = "test_scale[cpu-float32-withgrad-wide-own.fails]"
    snapshot(failure(result, nodeid))
    assert_no_plugin_frames(result)


def rerun_of(lines: list[str]) -> list[str]:
    """The arguments of the command that a failure names."""
    (line,) = (line for line in lines if line.startswith("rerun"))
    arguments = shlex.split(line.removeprefix("rerun"))
    assert arguments[0] == "pytest"
    return arguments[1:]


def test_the_command_reruns_exactly_that_item(suite: Suite) -> None:
    suite.test("""
@customop_cases(
    scale, [(tensor(3), 2), (tensor(4), 2)], checks=["own.fails", "own.passes"],
    dtypes=[torch.float32, torch.float64],
)
def test_scale(): ...
""")
    result = suite.run("--customop-dtypes=float64", "--customop-seed=3", checks=None)
    nodeid = "test_scale[cpu-float64-nograd-0-own.fails]"
    again = suite.run("-v", *rerun_of(failure(result, nodeid)), checks=None)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["customop: * dtypes=float64 * seed=3"])
    assert f"{nodeid} FAILED" in again.stdout.str()


def test_the_command_reruns_an_opt_in_check(suite: Suite) -> None:
    suite.test(
        "@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)\ndef test_op(): ...\n"
    )
    result = suite.run(checks="own.fails")
    result.assert_outcomes(failed=1)
    arguments = rerun_of(failure(result, "test_op[cpu-float32-nograd-0-own.fails]"))
    suite.run(*arguments, checks=None).assert_outcomes(failed=1)


def test_the_command_reruns_a_test_of_a_subfolder_and_a_class(suite: Suite) -> None:
    suite.test(
        """
@customop_cases(scale, [(tensor(3), 2)], checks="own.fails", requires_grad=False)
class TestScale: ...
""",
        name="sub folder/test_it.py",
    )
    result = suite.run(checks=None)
    nodeid = "TestScale.test_customop[cpu-float32-nograd-0-own.fails]"
    again = suite.run(*rerun_of(failure(result, nodeid)), checks=None)
    again.assert_outcomes(failed=1)


def test_the_command_is_for_the_folder_that_pytest_was_called_in(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.test(
        "@customop_cases(scale, [(tensor(3), 2)], checks='own.fails')\ndef test_op(): ...\n",
        name="below/test_it.py",
    )
    suite.write("pytest.ini", "[pytest]\n")
    monkeypatch.chdir(suite.path / "below")
    result = suite.run(checks=None)
    arguments = rerun_of(failure(result, "test_op[cpu-float32-nograd-0-own.fails]"))
    assert arguments[0] == "test_it.py::test_op[cpu-float32-nograd-0-own.fails]"
    suite.run(*arguments, checks=None).assert_outcomes(failed=1)


@pytest.mark.parametrize("name", ["$HOME`id`", "it's", '"a"*!1'], ids=["$", "quote", "others"])
@pytest.mark.skipif(os.name != "posix", reason="quoted for a POSIX shell")
def test_a_shell_leaves_the_command_as_it_is(suite: Suite, name: str) -> None:
    suite.test(f"""
@customop_cases(
    scale, [Sample((tensor(3), 2), id={name!r})], checks="own.fails", requires_grad=False
)
def test_scale(): ...
""")
    nodeid = f"test_scale[cpu-float32-nograd-{name}-own.fails]"
    (line,) = (line for line in failure(suite.run(checks=None), nodeid) if line.startswith("rerun"))
    command = line.removeprefix("rerun").strip().removeprefix("pytest")
    printed = subprocess.run(["sh", "-c", f"printf %s {command}"], capture_output=True, text=True)
    assert printed.stdout == f"test_it.py::{nodeid}"
    suite.run(printed.stdout, checks=None).assert_outcomes(failed=1)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_paths_are_those_of_the_folder_that_pytest_was_called_in(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    cases = "[(tensor(3), 2), (tensor(4), 2)], checks='own.fails', requires_grad=False"
    suite.test(f"@customop_cases(scale, {cases})\ndef test_op(): ...\n", name="a/b/test_it.py")
    suite.write("pytest.ini", "[pytest]\n")
    (suite.path / "a" / "c").mkdir()
    monkeypatch.chdir(suite.path / "a" / "c")
    run = suite.run_apart if workers else suite.run
    result = run("../b", "-p", "no:cacheprovider", *workers, checks=None)
    result.assert_outcomes(failed=2)
    nodeid = "test_op[cpu-float32-nograd-{}-own.fails]"
    root = failure(result, nodeid.format(0))
    assert rerun_of(root)[0] == f"../b/test_it.py::{nodeid.format(0)}"
    shown = f"the same finding is reported in full at ../b/test_it.py::{nodeid.format(0)}"
    assert failure(result, nodeid.format(1))[-1] == shown


def test_a_line_a_failure_where_pytest_prints_lines(suite: Suite) -> None:
    cases = "[(tensor(3), 2), (tensor(4), 2)], checks='own.fails', requires_grad=False"
    suite.test(f"@customop_cases(scale, {cases})\ndef test_op(): ...\n")
    result = suite.run("--tb=line", checks=None)
    lines = [
        line
        for line in result.outlines
        if line.endswith("own-finding: output is wrong") and "FAILED" not in line
    ]
    place = f"test_it.py:{suite.line_of('@customop_cases')}"
    assert lines == [f"{place}: own-finding: output is wrong"] * 2
    assert "the evidence" not in result.stdout.str()


RAISES = """
def helper(x):
    raise IndexError("no such row")

@torch.library.custom_op("NS::raises", mutates_args=())
def raises(x: torch.Tensor) -> torch.Tensor:
    return helper(x)

@customop_cases(raises, [(tensor(3),), (tensor(4),)], requires_grad=False)
def test_raises(): ...
"""


def test_an_op_that_raises_is_reported_in_full_once(suite: Suite, snapshot: Snapshot) -> None:
    path = suite.test(RAISES, ops=HEAD)
    result = suite.run(checks="own.passes,own.skips")
    result.assert_outcomes(failed=4)
    first, *others = (
        failure(result, f"test_raises[cpu-float32-nograd-{sample}-own.{check}]")
        for sample in (0, 1)
        for check in ("passes", "skips")
    )
    frames = [line for line in first if line.startswith("  File ")]
    assert frames == [
        f'  File "{path}", line {suite.line_of("return helper")}, in raises',
        f'  File "{path}", line {suite.line_of("raise IndexError")}, in helper',
    ]
    assert "IndexError: no such row" in first
    snapshot([first[0], "...", first[-1]], "first")
    for number, lines in enumerate(others):
        assert len(lines) == 2
        snapshot(lines, f"again {number}")


def test_a_check_that_breaks_shows_where(suite: Suite) -> None:
    suite.test(
        "@customop_cases(scale, [(tensor(3), 2)], checks='own.breaks')\ndef test_op(): ...\n"
    )
    result = suite.run(checks=None)
    lines = failure(result, "test_op[cpu-float32-nograd-0-own.breaks]")
    assert lines[0] == "error: the check broke: RuntimeError: a broken check"
    assert any('raise RuntimeError("a broken check")' in line for line in lines)
    assert any("--customop-checks=-own.breaks leaves it out" in line for line in lines)


def test_a_real_tensor_is_described_by_a_hash_of_its_values(
    suite: Suite, snapshot: Snapshot
) -> None:
    suite.test("""
@customop_cases(scale, [(torch.arange(6.0).reshape(2, 3).t(), 2)], checks="own.fails")
def test_scale(): ...
""")
    lines = failure(suite.run(checks=None), "test_scale[cpu-float32-nograd-0-own.fails]")
    (shown,) = (line for line in lines if line.startswith("         x = "))
    snapshot(shown)


def test_a_body_fails_like_any_test(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)
def test_scale(customop_case):
    assert customop_case() is None
""")
    result = suite.run(checks="body")
    result.stdout.fnmatch_lines([">       assert customop_case() is None", "E *assert tensor(*"])
    assert_no_plugin_frames(result)


def test_a_body_whose_op_raises_ends_in_the_op(suite: Suite) -> None:
    suite.test(
        RAISES.replace("def test_raises(): ...", "def test_raises(case_): ...").replace(
            "def test_raises(case_): ...",
            "def test_raises(customop_case):\n    customop_case()",
        ),
        ops=HEAD,
    )
    result = suite.run(checks="body")
    result.assert_outcomes(failed=2)
    assert 'raise IndexError("no such row")' in result.stdout.str()


def test_a_skip_is_placed_at_the_test(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)], checks='own.skips')\ndef test_op(): ...\n")
    line = suite.line_of("@customop_cases")
    result = suite.run("-rs", checks=None)
    result.stdout.fnmatch_lines(
        [f"SKIPPED [[]2] test_it.py:{line}: own-reason: it cannot be judged here"]
    )


def test_the_case_block_names_what_shows_it(suite: Suite) -> None:
    """A finding may show at another size, in another layout, or in an op that the backward calls."""
    suite.write("conftest.py", "")
    suite.test("""
@torch.library.custom_op("NS::sized", mutates_args=())
def sized(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@sized.register_fake
def _(x):
    return x.new_empty(5, 4)

@torch.library.custom_op("NS::inner", mutates_args=())
def inner(grad: torch.Tensor) -> torch.Tensor:
    return grad.t().contiguous().t()

@inner.register_fake
def _(grad):
    return torch.empty(grad.shape)

@torch.library.custom_op("NS::outer", mutates_args=())
def outer(x: torch.Tensor) -> torch.Tensor:
    return x * 1

@outer.register_fake
def _(x):
    return torch.empty_like(x)

outer.register_autograd(lambda ctx, grad: inner(grad))

@torch.library.custom_op("NS::reads_memory", mutates_args=())
def reads_memory(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x, x.shape, torch.empty(x.shape).stride()).clone()

@reads_memory.register_fake
def _(x):
    return torch.empty(x.shape)

@customop_cases(sized, [(tensor(5, 4),)], checks="fake.symbolic")
def test_sized(): ...

@customop_cases(outer, [(tensor(5, 4),)], checks="fake.backward")
def test_outer(): ...

@customop_cases(reads_memory, [(tensor(5, 4),)], checks="values.layouts")
def test_reads_memory(): ...
""")
    result = suite.run(checks="fake,values")
    result.stdout.fnmatch_lines_random(
        [
            "       shown with x (6, 5)",
            f"       shown in {suite.ns}::inner, called by the backward of {suite.ns}::outer",
            "       shown with x transposed in memory",
        ]
    )
