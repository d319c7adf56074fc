"""Marked tests in sessions of every kind: selected, stopped, repeated, strict, distributed."""

from __future__ import annotations

import pytest
from kit import Suite

SUITE = """
@customop_cases(scale, [(tensor(3), 2), (tensor(4), 2)], requires_grad=False)
def test_scale(customop_case):
    assert customop_case() is not None

@customop_cases(plain, [(tensor(3),)], requires_grad=False)
def test_plain(): ...
"""
# The same, and each check of test_scale fails too.
FAILING = SUITE.replace("requires_grad", "checks=['own.passes', 'own.fails'], requires_grad", 1)
PYTEST_9 = pytest.mark.skipif(
    int(pytest.__version__.partition(".")[0]) < 9, reason="native configuration came with pytest 9"
)


def test_the_last_failures_alone(suite: Suite) -> None:
    suite.test(FAILING)
    suite.run(checks="own,body").assert_outcomes(passed=5, failed=2)
    suite.run("--lf", checks="own,body").assert_outcomes(failed=2)


def test_the_first_failure_stops(suite: Suite) -> None:
    suite.test(FAILING)
    result = suite.run("-x", checks="own,body")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])


@pytest.mark.parametrize("stop", ["-x", "--maxfail=2"])
def test_what_is_quick_comes_first_where_a_failure_stops(suite: Suite, stop: str) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2), (tensor(4), 2)], requires_grad=False)
def test_scale(): ...

def test_between(): ...

class TestPlain:
    @customop_cases(plain, [(tensor(3),)], requires_grad=False)
    def test_plain(self): ...

@customop_cases(plain, [(tensor(4),)], requires_grad=False, variants=False)
def test_other(): ...
""")
    options = ("--customop-variants=quick",)
    checks = "compile.static,fake.forward,opcheck.test_faketensor,opcheck.test_aot_dispatch_dynamic"
    usual, reordered = (
        [
            line
            for line in suite.run("--collect-only", "-q", *options, *more, checks=checks).outlines
            if "::" in line
        ]
        for more in ((), (stop,))
    )
    assert sorted(reordered) == sorted(usual)
    assert reordered != usual
    in_class = ["TestPlain" in nodeid for nodeid in reordered]
    assert in_class == ["TestPlain" in nodeid for nodeid in usual]
    between = "test_it.py::test_between"
    assert reordered.index(between) == usual.index(between)
    of_file = [nodeid for nodeid in reordered if "-nograd-" in nodeid and "TestPlain" not in nodeid]
    kinds = [nodeid.rpartition("nograd-")[2].partition("-")[2][:-1] for nodeid in of_file]
    assert kinds == [
        *["fake.forward", "opcheck.test_faketensor"] * 3,
        *["variants-fake.forward"] * 2,
        *["opcheck.test_aot_dispatch_dynamic"] * 3,
        *["compile.static"] * 3,
    ]


def test_collecting_only_runs_nothing(suite: Suite) -> None:
    suite.test("""
@torch.library.custom_op("NS::boom", mutates_args=())
def boom(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("it ran")

@customop_cases(boom, [(tensor(3),)])
def test_op(): ...
""")
    result = suite.run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_it.py::test_op[[]cpu-float32-nograd-0-own.passes]"])
    assert "it ran" not in result.stdout.str()
    assert "customop =" not in result.stdout.str()


@pytest.mark.parametrize("check", ["own.passes", "body"])
def test_one_item_by_its_id(suite: Suite, check: str) -> None:
    suite.test(SUITE)
    nodeid = f"test_it.py::test_scale[cpu-float32-nograd-1-{check}]"
    suite.run(nodeid, checks=None).assert_outcomes(passed=1)


def test_strict_markers(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run("--strict-markers", "--strict-config").assert_outcomes(passed=3)


@pytest.mark.parametrize("configuration", ["[pytest]\n", "[pytest]\nfilterwarnings = error\n"])
def test_warnings_as_errors(suite: Suite, configuration: str) -> None:
    suite.write("pytest.ini", configuration)
    suite.test(SUITE)
    result = suite.run("-W", "error", checks="own,body")
    result.assert_outcomes(passed=5)


@PYTEST_9
def test_native_strict_configuration(suite: Suite) -> None:
    suite.write(
        "pyproject.toml",
        """
[tool.pytest]
strict = true
filterwarnings = ["error"]
customop_checks = "own,fake"
customop_devices = "cpu"
""",
    )
    suite.test(SUITE)
    result = suite.run("-v", checks=None)
    assert set(result.parseoutcomes()) <= {"passed", "skipped", "deselected"}
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "customop: devices=cpu dtypes=default checks=own,fake *",
            "*test_plain[[]cpu-float32-nograd-0-fake.forward] PASSED*",
        ]
    )


def test_an_empty_selection_of_bodies_is_not_an_empty_parameter_set(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\nempty_parameter_set_mark = fail_at_collect\n")
    suite.test(SUITE)
    assert suite.run(checks="own").parseoutcomes() == {"passed": 3, "deselected": 1}
    assert suite.run(checks="body").parseoutcomes() == {"passed": 2, "deselected": 2}


def test_randomly_shuffles_and_everything_passes(suite: Suite) -> None:
    pytest.importorskip("pytest_randomly")
    suite.test(SUITE)
    for seed in ("1", "2", "3"):
        result = suite.run("-p", "randomly", f"--randomly-seed={seed}", checks="own,body")
        result.assert_outcomes(passed=5)


def test_markers_select_items(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\nmarkers =\n    slow: takes long\n")
    suite.test(SUITE.replace("@customop_cases(plain", "@pytest.mark.slow\n@customop_cases(plain"))
    assert {nodeid.partition("[")[0] for nodeid in suite.ids("-m", "slow")} == {"test_plain"}
    assert {nodeid.partition("[")[0] for nodeid in suite.ids("-m", "not slow")} == {"test_scale"}
    assert len(suite.ids("-m", "customop_cases")) == 3


def test_cases_may_be_interleaved(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        (suite.path / "conftest.py").read_text()
        + """

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = items[::2] + items[1::2]
""",
    )
    suite.test(SUITE)
    suite.run(checks="own,body").assert_outcomes(passed=5)


def test_tests_that_are_not_marked_are_left_alone(suite: Suite) -> None:
    suite.write(
        "test_other.py",
        """
import unittest
import pytest

@pytest.mark.parametrize("a", [1, 2])
def test_a(a): ...

@pytest.mark.parametrize("b", [])
def test_b(b): ...

class TestC:
    def test_c(self, tmp_path): ...

class TestD(unittest.TestCase):
    def test_d(self): ...

async def helper(): ...
""",
    )
    result = suite.run()
    result.assert_outcomes(passed=4, skipped=1)
    assert "customop =" not in result.stdout.str()
