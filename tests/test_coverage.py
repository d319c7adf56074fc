"""Coverage of a namespace: what no case reached, in the summary, the report and the exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit import HEAD, Suite, summary_of

from pytest_customop.plan.place import Place
from pytest_customop.report.coverage import (
    RegisteredOp,
    Scope,
    coverage_lines,
    coverage_of,
    required_lines,
)
from pytest_customop.run.record import Outcome, ResultRecord

# Ops `one` to `three`; `one` has an overload and a kernel for CUDA, and `scale` has a formula.
OPS = (
    HEAD
    + """
if not hasattr(getattr(torch.ops, "NS::".strip(":")), "one"):  # a suite may run several times
    for name in ("one", "two", "three"):
        torch.library.define("NS::" + name, "(Tensor x) -> Tensor")
        torch.library.impl("NS::" + name, "CPU", lambda x: x.clone())
    torch.library.impl("NS::one", "CUDA", lambda x: x.clone())
    torch.library.define("NS::one.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    torch.library.impl("NS::one.out", "CPU", lambda x, *, out: out.copy_(x))
    torch.library.define("NS::version", "() -> int")

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2

scale.register_autograd(lambda ctx, grad: grad * 2)
"""
)
ONE = '@customop_cases("NS::one", [(tensor(3),)], requires_grad=False)\ndef test_one(): ...\n'
SCALE = "@customop_cases(scale, [(tensor(3),)], requires_grad=False)\ndef test_scale(): ...\n"
BY_HAND = 'def test_by_hand(customop_check):\n    customop_check("NS::two", torch.ones(3))\n'
ALL = """
@customop_cases("NS::one", [(tensor(3),)], requires_grad=False)
@customop_cases("NS::two", [(tensor(3),)], requires_grad=False)
@customop_cases("NS::three", [(tensor(3),)], requires_grad=False)
@customop_cases(scale, [(tensor(3),)])
def test_all(): ...

@customop_cases("NS::one.out", [Sample((tensor(3),), {"out": tensor(3)})], requires_grad=False)
def test_out(): ...
"""


def coverage_in(suite: Suite) -> dict[str, Any]:
    """The coverage of the suite's namespace in its report."""
    report = json.loads((suite.path / "report.json").read_text(encoding="utf-8"))
    (coverage,) = report["coverage"]
    assert coverage["namespace"] == suite.ns
    return dict(coverage)


def coverage_section(result: pytest.RunResult) -> list[str]:
    """The lines on coverage at the end of the summary."""
    lines = summary_of(result)
    start = next((i for i, line in enumerate(lines) if line.startswith("Coverage")), len(lines))
    return [line for line in lines[start:] if not line.startswith("report:")]


def test_the_summary_says_what_no_case_reached(suite: Suite) -> None:
    suite.test(ONE + SCALE + BY_HAND, ops=OPS)
    result = suite.run("--customop-report=report.json")
    result.assert_outcomes(passed=3)
    assert coverage_section(result) == [
        "Coverage (--customop-report has every name):",
        f"  {suite.ns}: 1 of 4 ops has no case: three",
        f"  {suite.ns}: overloads without a case: one.out",
        f"  {suite.ns}: a formula, and no case with gradients: scale",
        f"  {suite.ns}: a kernel for cuda, and no case there (cuda is not here): one",
    ]
    coverage = coverage_in(suite)
    assert coverage["without_case"] == [f"{suite.ns}::three"]
    assert coverage["without_device"] == {"cuda": [f"{suite.ns}::one"]}
    assert coverage["missing"]
    assert coverage["ops"] == 4


def test_nothing_is_said_where_nothing_is_missing(suite: Suite) -> None:
    suite.test(ALL, ops=OPS.replace('::one", "CUDA', '::two", "CompositeExplicitAutograd'))
    result = suite.run("--customop-report=report.json")
    result.assert_outcomes(passed=6)
    assert coverage_section(result) == []
    assert not coverage_in(suite)["missing"]


def test_required_coverage_that_is_missing_fails_the_run(suite: Suite) -> None:
    suite.test(ONE + SCALE, ops=OPS)
    result = suite.run(f"--customop-require-coverage={suite.ns}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "=* customop: required coverage is missing =*",
            f"{suite.ns}: 2 of 4 ops have no case: three, two",
        ]
    )


def test_ops_that_need_no_case_are_left_out(suite: Suite) -> None:
    suite.test(BY_HAND, ops=OPS)
    value = f"{suite.ns},-{suite.ns}::one,-{suite.ns}::[ts]h*"
    result = suite.run(f"--customop-require-coverage={value},-{suite.ns}::nosuch")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"{suite.ns}: 1 of 2 ops has no case: scale"])
    result.stdout.fnmatch_lines([f"{suite.ns}: no op is left out by: {suite.ns}::nosuch"])
    result = suite.run(f"--customop-require-coverage={value},-{suite.ns}::scale")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["=* customop: required coverage =*", f"{suite.ns}: complete, 1 op"]
    )


def test_the_ini_file_requires_coverage(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\ncustomop_require_coverage = NS::\n".replace("::", ""))
    ini = suite.path / "pytest.ini"
    ini.write_text(ini.read_text().replace("NS", suite.ns))
    suite.test(SCALE, ops=OPS)
    result = suite.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"{suite.ns}: 3 of 4 ops have no case: one, three, two"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-k", "test_one"), "-k selects a part of the tests"),
        (("test_it.py::test_one",), "single tests were selected"),
        (("--lf",), "--last-failed selects a part of the tests"),
        (("--customop-shard=1/2",), "this is shard 1/2"),
        (("--deselect=test_it.py::test_by_hand",), "tests that request customop_check were desel"),
        (
            ("--customop-harvest=nosuch", "-m", "not slow"),
            "--customop-harvest did not see the calls",
        ),
        (("-x", "--customop-checks=own.fails"), "the run was stopped early"),
    ],
)
def test_a_part_of_the_tests_is_not_judged(
    suite: Suite, arguments: tuple[str, ...], reason: str
) -> None:
    suite.write("pytest.ini", "[pytest]\nmarkers = slow: slow\n")
    suite.test(ONE + SCALE + BY_HAND + "@pytest.mark.slow\ndef test_old(): ...\n", ops=OPS)
    assert not coverage_section(suite.run(*arguments))
    result = suite.run(*arguments, f"--customop-require-coverage={suite.ns}")
    result.stdout.fnmatch_lines([f"{suite.ns}: not judged, because {reason}*"])
    assert "is missing" not in result.stdout.str()
    assert result.ret == (1 if "-x" in arguments else 0)


def test_files_are_the_suite_of_a_required_namespace_alone(suite: Suite) -> None:
    suite.test(ONE, ops=OPS)
    assert not coverage_section(suite.run("test_it.py"))
    result = suite.run("test_it.py", f"--customop-require-coverage={suite.ns}")
    result.stdout.fnmatch_lines([f"{suite.ns}: 3 of 4 ops have no case: *"])


def test_the_ini_file_requires_nothing_of_a_part_of_the_suite(suite: Suite) -> None:
    lines = ["[pytest]", f"customop_require_coverage = {suite.ns}", "testpaths = ops plain"]
    suite.write("pytest.ini", "\n".join(lines))
    suite.test(ONE, "ops/test_it.py", ops=OPS)
    suite.write("plain/test_plain.py", "def test_plain(): ...\n")
    for part, reason in (
        ("ops/test_it.py", "single files were selected"),
        ("ops", "a part of pytest's testpaths was selected"),
        ("plain", "a part of pytest's testpaths was selected"),
    ):
        result = suite.run(part)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines([f"{suite.ns}: not judged, because {reason}"])
    for whole in ((), (".",), ("plain", "ops")):
        result = suite.run(*whole)
        result.stdout.fnmatch_lines([f"{suite.ns}: 3 of 4 ops have no case: *"])


def test_nothing_is_judged_where_tests_are_only_collected(suite: Suite) -> None:
    suite.test(ONE, ops=OPS)
    result = suite.run("--collect-only", f"--customop-require-coverage={suite.ns}")
    assert result.ret == pytest.ExitCode.OK
    assert "coverage is missing" not in result.stdout.str()


def test_ops_whose_tests_are_deselected_are_not_judged(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\nmarkers = slow: slow\n")
    suite.test(ONE + "@pytest.mark.slow\n" + SCALE, ops=OPS)
    lines = coverage_section(suite.run("-m", "not slow"))
    assert f"  {suite.ns}: 2 of 4 ops have no case: three, two" in lines
    assert lines[-1].endswith("not judged, because tests of them were deselected: scale")


def test_the_workers_are_judged_together(suite: Suite) -> None:
    suite.test(ONE + SCALE + BY_HAND, ops=OPS)
    result = suite.run_apart(
        "-n2", "--customop-report=report.json", f"--customop-require-coverage={suite.ns},nosuch"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "=* customop: required coverage is missing =*",
            "nosuch: no op of this namespace is registered*",
            f"{suite.ns}: 1 of 4 ops has no case: three",
        ]
    )


def test_a_session_without_the_plugin_imports_no_torch_for_it(suite: Suite) -> None:
    suite.write(
        "test_plain.py", "import sys\n\ndef test_it():\n    assert 'torch' not in sys.modules\n"
    )
    (suite.path / "conftest.py").unlink()
    result = suite.run_apart(
        "--customop-require-coverage=mylib", "-p", "no:cacheprovider", checks=None
    )
    assert "mylib: no op of this namespace is registered" in result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mylib::scale", "'mylib::scale' is not a namespace: give mylib"),
        ("aten", "the namespace aten is not an author's: torch tests its ops itself"),
        ("mylib,-scale", "'-scale' leaves out no op: give -namespace::name"),
        ("-mylib::scale", "give a namespace, as mylib"),
    ],
)
def test_a_wrong_value(suite: Suite, given: str, message: str) -> None:
    suite.test(ONE, ops=OPS)
    result = suite.run(f"--customop-require-coverage={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--customop-require-coverage={given}: {message}" in result.stderr.str()


# Without a session


def record(
    op: str, device: str = "cpu", outcome: Outcome = "passed", grad: bool = False
) -> ResultRecord:
    place = Place(device=device, requires_grad=grad)
    return ResultRecord("t.py::test", op, "own.passes", place, outcome)


def test_a_skip_is_no_case() -> None:
    (coverage,) = coverage_of(
        [RegisteredOp("a::x", False, ())], [record("a::x", outcome="skipped")], Scope()
    )
    assert coverage.without_case == ("a::x",)


def test_devices_are_judged_by_type_and_absent_ones_fail_only_where_they_are_required() -> None:
    ops = [RegisteredOp("a::x", False, ("cpu", "cuda"))]
    (coverage,) = coverage_of(ops, [record("a::x", "cpu"), record("a::x", "cuda:1")], Scope())
    assert not coverage.without_device
    absent = Scope(required=("a",), absent=frozenset({"cuda"}))
    (coverage,) = coverage_of(ops, [record("a::x", "cpu")], absent)
    assert coverage.without_device == {"cuda": ("a::x",)}
    assert not coverage.fails
    assert required_lines([coverage])[-1] == "a: complete on the devices of this machine, 1 op"
    required = Scope(required=("a",), absent=frozenset({"cuda"}), devices_required=True)
    (coverage,) = coverage_of(ops, [record("a::x", "cpu")], required)
    assert coverage.fails
    (coverage,) = coverage_of(ops, [record("a::x", "cpu")], Scope(required=("a",)))
    assert coverage.fails
    assert required_lines([coverage]) == ["a: a kernel for cuda, and no case there: x"]


def test_a_complete_namespace_is_said_to_be_so_only_where_it_is_required() -> None:
    ops = [RegisteredOp("a::x", True, ("cpu",))]
    records = [record("a::x", grad=True)]
    assert required_lines(coverage_of(ops, records, Scope(required=("a",)))) == [
        "a: complete, 1 op"
    ]
    assert coverage_lines(coverage_of(ops, records, Scope())) == []


def test_names_and_namespaces_are_folded() -> None:
    ops = [RegisteredOp(f"n{i}::x{j}", False, ()) for i in range(9) for j in range(8)]
    ops += [RegisteredOp(f"n{i}::_x", False, ()) for i in range(9)]
    lines = coverage_lines(coverage_of(ops, [], Scope()))
    assert lines[2] == "  n0: 9 of 9 ops have no case: x0, x1, x2, x3 and 5 more"
    assert lines[-1] == "  and 5 more namespaces"
    assert len(lines) == 2 + 4 + 1
