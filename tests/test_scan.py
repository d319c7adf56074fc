"""`--customop-scan`: ops of a package without a test are audited, and checked on inputs found for them."""

from __future__ import annotations

import pytest
from kit import Suite

PACKAGE = "tests.scan_package"
AUDITED = ("--customop-scan-seconds=0", "--customop-report=report.json", "-v")

FAILED = {
    ("scanned::without_fake", "fake-missing"),
    ("scanned::log_scale", "call-removed"),
    ("scanned::other_default", "default-differs"),
    ("scanned::lost_argument", "signature-differs"),
}
NOTED = {
    ("scanned::halve_", "inplace-undeclared"),
    ("scanned::norm", "formula-unused"),
    ("scanned::shifted", "fake-unused"),
    ("scanned::doubled", "overloads-differ"),
}


def findings(suite: Suite, outcome: str) -> set[tuple[str, str]]:
    return {(one["op"], one["finding"]) for one in suite.results() if one["outcome"] == outcome}


def test_the_audit_finds_what_schemas_and_registrations_show(suite: Suite) -> None:
    result = suite.run_apart(f"--customop-scan={PACKAGE}", *AUDITED, checks=None)
    assert findings(suite, "failed") == FAILED
    assert findings(suite, "noted") == NOTED
    every = suite.results()
    assert {one["nodeid"] for one in every} >= {
        "scan::scanned::attend[audit]",
        "scan::scanned::doubled.out[audit]",
    }
    assert {one["check"] for one in every} == {"scan.audit"}
    result.stdout.fnmatch_lines(
        [
            "scan: 43 ops of scanned",
            "  op * kernels * autograd * fake * vmap * tags * registered by * findings",
            "  scanned::lowered * composite * composite * composite * Library * -",
            "  scanned::total * any * python * python * custom_op * -",
            "scan: 43 ops of scanned audited",
        ]
    )


def test_the_audit_is_the_same_in_workers(suite: Suite) -> None:
    given = (f"--customop-scan={PACKAGE}", *AUDITED, "-n", "2")
    result = suite.run_apart(*given, checks=None)
    assert findings(suite, "failed") == FAILED
    result.stdout.fnmatch_lines(["scan: 43 ops of scanned audited"])


def test_recorded_findings_are_expected_ones(suite: Suite) -> None:
    given = (f"--customop-scan={PACKAGE}", *AUDITED, "--customop-baseline=known.toml")
    suite.run_apart(*given, "--customop-update-baseline", checks=None)
    result = suite.run_apart(*given, checks=None)
    result.assert_outcomes(passed=35, skipped=4, xfailed=4)


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("tests.scan_packages", "there is no package 'tests.scan_packages' here"),
        (
            "reference_opps",
            "there is no package 'reference_opps' here; did you mean 'reference_ops'?",
        ),
        ("json", "importing json registers no op with tensors"),
        ("dies", "importing dies ended the process by signal 11"),
        ("raises", "importing raises raises ZeroDivisionError"),
    ],
)
def test_wrong_use_is_one_error(suite: Suite, package: str, message: str) -> None:
    suite.write("dies.py", "import ctypes\nctypes.string_at(0)\n")
    suite.write("raises.py", "1 / 0\n")
    result = suite.run_apart(f"--customop-scan={package}", checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --customop-scan: {message}*"])
