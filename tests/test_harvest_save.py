"""`--customop-harvest-save`: the file of marked tests that is written from a suite."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from kit import Suite
from test_harvest import OLD, write

from pytest_customop.core.source import Bracketed, laid_out, quoted

# The ops in a module, which both files import.
LIBRARY = "oldops.py"

TESTS = """
import pytest, torch
from oldops import *

@pytest.mark.parametrize("size", [1, 5])
def test_scale(size):
    scale(torch.randn(size, 3, requires_grad=True), 2).square().sum().backward()
    scale(torch.randn(size, 3), n=3)
    scale(torch.randn(3), 2)
    scale(torch.tensor([0.1, float("inf"), -2.0], dtype=torch.bfloat16), 2)
    scale(torch.randn(4, 6, 2, dtype=torch.float64).permute(1, 2, 0), 2)
    scale(torch.randn(4, 6, dtype=torch.complex64).t(), -2)
    scale(torch.zeros(0, 6), 2)
    scale(torch.tensor(2), 2)

def test_pick():
    pick(torch.rand(60, 2), torch.randint(0, 60, (50,)))
    pick(torch.rand(60, 2), torch.arange(0, 60, 2, dtype=torch.int32))
    pick(torch.rand(30, 2), torch.rand(30) > 0.5)

def test_turn():
    turn(torch.rand(4, 5))
"""


def saved(suite: Suite, *args: str, apart: bool = False, checks: str = "fake") -> Any:
    """Harvest the suite, and have its file written."""
    options = (f"--customop-harvest={suite.ns}", "--customop-harvest-save=test_new.py", *args)
    return (suite.run_apart if apart else suite.run)(*options, checks=checks)


def outcomes(suite: Suite, name: str) -> dict[str, Any]:
    """By op and what stands in the brackets: how each item ended."""
    return {
        record["op"] + str(record["variant"]) + record["nodeid"].partition("[")[2]: (
            record["outcome"],
            record["finding"],
            record["message"],
        )
        for record in suite.results(name)
    }


@pytest.mark.parametrize("apart", [False, True], ids=["alone", "xdist"])
def test_the_file_ends_as_the_harvest_did(suite: Suite, apart: bool) -> None:
    library = OLD.replace("torch.ops.mine", f"torch.ops.{suite.ns}")
    suite.write(LIBRARY, library)
    suite.write("test_old.py", "import sys\nsys.path.insert(0, '.')\n" + TESTS)
    variants = "--customop-variants=quick"
    report = "--customop-report=harvest.json"
    result = saved(suite, variants, report, *["-n", "2"] * apart, apart=True)
    result.stdout.fnmatch_lines(["harvest: wrote 5 marked tests to test_new.py"])
    again = suite.run_apart(variants, "--customop-report=again.json", "test_new.py", checks="fake")
    harvested = outcomes(suite, "harvest.json")
    assert len(harvested) > 50
    assert {outcome[0] for outcome in harvested.values()} >= {"passed", "failed"}
    assert outcomes(suite, "again.json") == harvested
    assert again.ret == result.ret == 1
    text = (suite.path / "test_new.py").read_text(encoding="utf-8")
    assert "import oldops  # noqa: F401" in text
    for part in ("def test_scale_withgrad(): ...", "dtype=torch.bfloat16", "strides=(2, 1, 12)"):
        assert part in text
    assert "tensor(values=list(range(0, 59, 2)), dtype=torch.int32)" in text
    assert "# test_old.py::test_turn" in text
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "format", "--isolated", "--diff", "test_new.py"]
    formatted = subprocess.run(command, cwd=suite.path, capture_output=True, text=True)
    assert formatted.returncode == 0, formatted.stdout


def test_a_file_that_exists_is_left(suite: Suite) -> None:
    suite.write("test_new.py", "mine = 1\n")
    result = saved(suite)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --customop-harvest-save=test_new.py: the file exists already and is not *"]
    )
    assert (suite.path / "test_new.py").read_text(encoding="utf-8") == "mine = 1\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--customop-harvest-save=test_new.py"], "give --customop-harvest=NAMESPACE too"),
        (["--customop-harvest=a", "--customop-harvest-save=new.txt"], "give a Python file"),
        (["--customop-harvest=a", "--customop-harvest-save=no/new.py"], "there is no folder"),
    ],
)
def test_wrong_files_are_one_error(suite: Suite, args: list[str], message: str) -> None:
    result = suite.run(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --customop-harvest-save=*: *{message}*"])


@pytest.mark.parametrize(
    ("test", "line"),
    [
        ("def test_it(): ...\n", "*test_new.py was not written: there is no call to check"),
        ("def test_it():\n    turn(torch.ones(2, 2))\n    assert 0\n", "harvest: not run: *"),
    ],
)
def test_nothing_to_write(suite: Suite, test: str, line: str) -> None:
    write(suite, test)
    result = saved(suite, "-x")
    result.stdout.fnmatch_lines([line])
    assert not (suite.path / "test_new.py").exists()


def test_where_the_ops_are_registered_is_said_if_it_is_not_known(suite: Suite) -> None:
    write(suite, "def test_it():\n    turn(torch.ones(2, 3))\n")
    saved(suite, "--import-mode=importlib")
    text = (suite.path / "test_new.py").read_text(encoding="utf-8")
    assert f"\n\n# Import here what registers {suite.ns}::turn.\n" in text


def test_a_test_module_that_registers_the_ops_is_imported(suite: Suite) -> None:
    write(suite, "def test_it():\n    turn(torch.ones(2, 3))\n")
    saved(suite)
    assert suite.run("test_new.py", checks="fake.symbolic").ret == 0


def test_long_source_is_an_element_a_line() -> None:
    inner = Bracketed("f(", ["a" * 30, "b" * 30], ")")
    assert laid_out(inner) == f"f({'a' * 30}, {'b' * 30})"
    assert laid_out(Bracketed("g(", [inner, "c" * 30], ")"), 1, ",").splitlines() == [
        "g(",
        f"        f({'a' * 30}, {'b' * 30}),",
        f"        {'c' * 30},",
        "    ),",
    ]
    assert quoted('say "no"') == "'say \"no\"'"
    assert quoted("it's") == '"it\'s"'
