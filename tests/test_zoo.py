"""Every broken op of the zoo is reported with the right code, and no correct op is reported.

By default a specimen runs every check but those that take long, and these where it is about them: where
one of them reports something on the specimen or on the broken op of which it is the twin. On the other
correct ops they run in a test that is marked `slow`.
"""

from collections import defaultdict
from collections.abc import Set
from pathlib import Path

import pytest
from kit import Suite
from verdicts import assert_scripts_fail, codes

from pytest_customop.checks import builtin_checks, catalogue
from tests.zoo import Specimen, specimens
from tests.zoo.registry import TORCH

ZOO = specimens()
# torch 2.4 registers no vmap rules, and what the specimens export it exports in another way.
NOT_HERE = {"export.roundtrip", "vmap.loop"} if TORCH < (2, 5) else set()
# The zoo is for one device; test_devices_agree.py has ops for two.
CHECKS = {check.name for check in builtin_checks() if not check.several_devices} - NOT_HERE
BROKEN = {name: specimen for name, specimen in ZOO.items() if specimen.expected}

# Checks that take nearly all of the time, in groups that run together. What else compiles
# (compile.autocast, export.roundtrip) does so on few specimens.
COSTLY = (
    {"compile.static", "compile.dynamic", "opcheck.test_aot_dispatch_dynamic"},
    {"relations.call_order"},
    {"state.leaks"},
    {"values.threads"},
)

# Checks for which there is no op that they alone catch, and why.
NEVER_ALONE = {
    "opcheck.test_aot_dispatch_dynamic": "compile.* compare the same, on a backend",
    "opcheck.test_faketensor": "fake.forward compares the same and more",
    "opcheck.test_schema": "values.mutation and values.aliasing compare the same and more",
}
if TORCH < (2, 13):  # values.aliasing leaves outputs side by side in one buffer alone there
    del NEVER_ALONE["opcheck.test_schema"]


def _planted() -> dict[str, str]:
    """One broken op a check, for the run through the plugin: the one with the fewest findings."""
    fewest = sorted(BROKEN.values(), key=lambda specimen: (len(specimen.findings()), specimen.name))
    pairs = [
        (check, specimen.name) for specimen in fewest for check, _ in sorted(specimen.findings())
    ]
    return dict(reversed(pairs))


PLANTED = _planted()
REPORTED = ("-rf", "--customop-report=report.json")

# Codes that no op of the zoo can have, because it runs in this process and on one device; where they are
# proved.
ELSEWHERE = {
    "crash": "test_faults.py",
    "hang": "test_faults.py",
    "device-mismatch": "test_devices_agree.py",
    "device-gradient-mismatch": "test_devices_agree.py",
    "inplace-undeclared": "test_scan.py",
    "formula-unused": "test_scan.py",
    "fake-unused": "test_scan.py",
    "overloads-differ": "test_scan.py",
}

SOURCE = """
from pytest_customop import customop_cases
from tests.zoo import specimens

ZOO = specimens()

def planted(check, one):
    @customop_cases(one.op, one.samples, checks=check, **one.options)
    def test():
        ...

    return test

for check, name in {planted!r}.items():
    globals()["test_" + check.replace(".", "_")] = planted(check, ZOO[name])
"""


def _not_about(specimen: Specimen) -> set[str]:
    """The costly checks that say nothing about the op, nor about one that it does right."""
    checks = {
        check
        for related in (specimen, *(ZOO[name] for name in specimen.twin_of))
        for check, _ in related.findings() | related.noted() | related.limits()
    }
    return {check for group in COSTLY if not group & checks for check in group}


@pytest.mark.parametrize("specimen", ZOO.values(), ids=list(ZOO))
def test_specimen(specimen: Specimen, tmp_path: Path) -> None:
    checks = set(specimen.checks()) - _not_about(specimen)
    _assert_as_expected(specimen, checks, tmp_path / "script.py")


CORRECT = {name: specimen for name, specimen in ZOO.items() if not specimen.expected}
LEFT = {
    name: specimen
    for name, specimen in CORRECT.items()
    if _not_about(specimen) & set(specimen.checks())
}


@pytest.mark.slow
@pytest.mark.parametrize("specimen", LEFT.values(), ids=list(LEFT))
def test_costly_checks_of_what_a_correct_op_is_not_about(
    specimen: Specimen, tmp_path: Path
) -> None:
    checks = _not_about(specimen) & set(specimen.checks())
    _assert_as_expected(specimen, checks, tmp_path / "script.py")


def _assert_as_expected(specimen: Specimen, checks: Set[str], script: Path) -> None:
    """Run these checks; they report what the specimen expects of them, and nothing else."""
    results = specimen.check(checks)
    failures = "\n\n".join(
        str(result) for result in results if result.outcome in ("failed", "error")
    )
    reported = codes(results, ("failed", "error"))
    assert reported == {(check, code) for check, code in specimen.findings() if check in checks}, (
        failures
    )
    noted = {(check, code) for check, code in specimen.noted() if check in checks}
    assert codes(results, ("noted",)) == noted
    unjudged = codes([result for result in results if result.unjudged], ("skipped",))
    assert unjudged == {(check, code) for check, code in specimen.limits() if check in checks}
    passed = {
        result.check
        for result in results
        if result.outcome in ("passed", "skipped") and not result.unjudged
    }
    for name in specimen.twin_of:
        failed = {check for check, _ in ZOO[name].findings()} & checks
        assert failed <= passed, f"of the checks that fail on {name}, these did not pass here"
    assert_scripts_fail(results, script)


def test_every_check_and_every_code_has_a_broken_op() -> None:
    checks, codes = set(), set()
    for specimen in ZOO.values():
        checks |= {check for check, _ in specimen.every_finding()}
        codes |= {code for _, code in specimen.every_finding()}
    assert checks == CHECKS | NOT_HERE
    assert codes | set(ELSEWHERE) == set(catalogue())
    for code, name in ELSEWHERE.items():
        assert f'"{code}"' in Path(__file__).with_name(name).read_text(encoding="utf-8")


def test_every_broken_op_has_a_correct_twin() -> None:
    twins = {name for specimen in ZOO.values() for name in specimen.twin_of}
    broken = {name for name, specimen in ZOO.items() if specimen.broken}
    assert twins == broken
    assert not [name for name in broken if ZOO[name].twin_of]


def test_every_check_sees_what_no_other_sees() -> None:
    alone = {
        check
        for specimen in BROKEN.values()
        for check, _ in specimen.findings()
        if len(specimen.findings()) == 1
    }
    assert alone == CHECKS - NEVER_ALONE.keys()


@pytest.fixture
def planted(suite: Suite) -> Suite:
    """A suite with one broken op a check."""
    assert set(PLANTED) == CHECKS
    suite.write("test_it.py", SOURCE.format(planted=PLANTED))
    return suite


def _findings(suite: Suite) -> dict[str, set[tuple[str, str]]]:
    """By check, the node ids that failed and their findings."""
    findings = defaultdict(set)
    for result in suite.results():
        assert result["outcome"] != "error", result
        if result["outcome"] == "failed":
            findings[result["check"]].add((result["nodeid"], result["finding"]))
    return findings


def test_every_check_fails_through_the_plugin(planted: Suite) -> None:
    _assert_planted_is_found(planted, planted.run(*REPORTED, checks=None))


@pytest.mark.slow
def test_every_check_fails_under_xdist_too(planted: Suite) -> None:
    _assert_planted_is_found(planted, planted.run_apart("-n", "2", *REPORTED, checks=None))


def _assert_planted_is_found(planted: Suite, result: pytest.RunResult) -> None:
    """Each check failed with its code, in the items that have its name."""
    findings = _findings(planted)
    assert set(findings) == CHECKS
    for check, name in PLANTED.items():
        ids, codes = zip(*findings[check], strict=True)
        assert set(codes) == {code for found_by, code in ZOO[name].findings() if found_by == check}
        for nodeid in ids:
            assert nodeid.startswith(f"test_it.py::test_{check.replace('.', '_')}[")
            assert nodeid.endswith(f"-{check}]")
            assert any(line.startswith(f"FAILED {nodeid}") for line in result.outlines)


# What these report depends on the process: bytes a call, and how often calls at once went wrong.
COUNTING = ("state.leaks", "values.threads")


@pytest.mark.slow
def test_a_child_process_finds_the_same_in_the_same_words(planted: Suite) -> None:
    ran = []
    for name, more in (("here", ()), ("isolated", ("--customop-isolate",))):
        scripts = planted.path / name
        options = ("test_it.py", "--customop-report=report.json", f"--customop-repro-dir={scripts}")
        planted.run_apart(*options, *more, checks=None)  # ops of the zoo remember calls
        results = planted.results()
        for result in results:
            del result["duration"]
            result["repro"] = result["repro"].replace(" --customop-isolate=on", "")
            if result["check"] in COUNTING:
                result |= dict.fromkeys(("message", "evidence", "script"), "")
        texts = {path.name: path.read_bytes() for path in scripts.iterdir()}
        for name in texts:
            if any(check in name for check in COUNTING):
                texts[name] = b""  # the message stands there
        ran.append((results, texts))
    (here, scripts_here), (isolated, scripts_isolated) = ran
    assert {result["check"] for result in here if result["outcome"] == "failed"} == CHECKS
    assert isolated == here
    assert scripts_isolated == scripts_here
