"""The JSON report: schema 2, every outcome, the same with and without xdist."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from kit import Suite, summary_of

from pytest_customop.core.files import write_whole

KEYS = [
    "nodeid",
    "op",
    "check",
    "device",
    "dtype",
    "requires_grad",
    "layout",
    "sample",
    "variant",
    "outcome",
    "finding",
    "message",
    "fix",
    "known",
    "reason",
    "why_noted",
    "unjudged",
    "changed",
    "arguments",
    "evidence",
    "picture",
    "cause",
    "script",
    "repro",
    "seed",
    "file",
    "line",
    "duration",
]

# One test an outcome.
SUITE = """
GIVEN = dict(samples=[Sample((tensor(3), 2), id="a")], requires_grad=False)

@customop_cases(scale, checks="own.passes", **GIVEN)
def test_passed(): ...

@customop_cases(scale, checks="own.fails", **GIVEN)
def test_failed(): ...

@customop_cases(scale, checks="own.breaks", **GIVEN)
def test_error(): ...

@customop_cases(scale, checks="own.skips", **GIVEN)
def test_skipped(): ...

@customop_cases(scale, checks="own.fails", **GIVEN)
@pytest.mark.xfail(reason="known")
def test_xfailed(): ...

@customop_cases(scale, checks="own.passes", **GIVEN)
@pytest.mark.xfail(reason="known")
def test_xpassed(): ...

@customop_cases(scale, checks="own.passes", **GIVEN)
def test_body(customop_case):
    assert customop_case() is None, "a sentence"

@customop_cases(scale, skip_if=lambda cell: "not for " + cell.sample_id, **GIVEN)
def test_unsupported(): ...

@customop_cases(scale, checks="own.passes", **GIVEN)
@pytest.mark.skip(reason="not today")
def test_skip_mark(): ...

def test_ordinary(): ...
"""
OUTCOMES = {
    "test_passed": "passed",
    "test_failed": "failed",
    "test_error": "error",
    "test_skipped": "skipped",
    "test_xfailed": "xfailed",
    "test_xpassed": "xpassed",
    "test_body": "passed",
    "test_unsupported": "skipped",
    "test_skip_mark": "skipped",
}


def outcomes(suite: Suite) -> dict[str, str]:
    """The outcome of each test's checks."""
    results = [record for record in suite.results() if record["check"] != "body"]
    return {
        record["nodeid"].partition("::")[2].partition("[")[0]: record["outcome"]
        for record in results
    }


def comparable(suite: Suite, name: str) -> list[dict[str, Any]]:
    """The results of a report without what a clock says."""
    return [{**record, "duration": None} for record in suite.results(name)]


def test_schema_2(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run("--customop-report=report.json", "--customop-seed=3", checks=None)
    report = json.loads((suite.path / "report.json").read_text())
    assert list(report) == [
        "schema",
        "environment",
        "results",
        "findings",
        "coverage",
        "omitted",
    ]
    assert report["schema"] == 2
    environment = report["environment"]
    assert environment["torch"] == torch.__version__
    assert environment["pytest"] == pytest.__version__
    assert (environment["seed"], environment["backend"]) == (3, "inductor")
    assert all(list(record) == KEYS for record in report["results"])
    nodeids = [record["nodeid"] for record in report["results"]]
    assert nodeids == sorted(nodeids)
    assert not any("test_ordinary" in nodeid for nodeid in nodeids)


def test_every_outcome(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run("--customop-report=report.json", checks=None)
    assert outcomes(suite) == OUTCOMES
    by_test = {record["nodeid"].partition("::")[2]: record for record in suite.results()}
    failed = dict(by_test["test_failed[cpu-float32-nograd-a-own.fails]"])
    assert failed.pop("duration") > 0
    assert failed.pop("seed") >= 0
    assert failed.pop("arguments")[0].startswith("x")
    assert failed == {
        "nodeid": "test_it.py::test_failed[cpu-float32-nograd-a-own.fails]",
        "op": f"{suite.ns}::scale",
        "check": "own.fails",
        "device": "cpu",
        "dtype": "float32",
        "requires_grad": False,
        "layout": "contiguous",
        "sample": "a",
        "variant": None,
        "outcome": "failed",
        "finding": "own-finding",
        "message": "output is wrong",
        "fix": "change it",
        "known": None,
        "reason": None,
        "why_noted": None,
        "unjudged": False,
        "changed": None,
        "evidence": "the evidence",
        "picture": None,
        "cause": None,
        "script": None,
        "file": "test_it.py",
        "line": suite.line_of("def test_failed") - 1,
        "repro": "pytest 'test_it.py::test_failed[cpu-float32-nograd-a-own.fails]'",
    }
    error = by_test["test_error[cpu-float32-nograd-a-own.breaks]"]
    assert "RuntimeError: a broken check" in error["message"]
    assert error["finding"] is None
    skipped = by_test["test_skipped[cpu-float32-nograd-a-own.skips]"]
    assert skipped["message"] == "own-reason: it cannot be judged here"
    assert by_test["test_xfailed[cpu-float32-nograd-a-own.fails]"]["finding"] == "own-finding"
    body = by_test["test_body[cpu-float32-nograd-a-body]"]
    assert (body["outcome"], body["check"]) == ("failed", "body")
    assert "a sentence" in body["message"]
    unsupported = by_test["test_unsupported[cpu-float32-nograd-a]"]
    assert unsupported["message"] == "not for a"
    assert (unsupported["check"], unsupported["sample"]) == (None, "a")
    assert by_test["test_skip_mark[cpu-float32-nograd-a-own.passes]"]["message"] == "not today"


def test_a_strict_xpass_is_an_xpass(suite: Suite) -> None:
    suite.test(SUITE)
    suite.write("pytest.ini", "[pytest]\nxfail_strict = true\n")
    suite.run("--customop-report=report.json", checks=None)
    assert outcomes(suite) == OUTCOMES


def test_the_same_under_xdist(suite: Suite) -> None:
    """A check of a conftest is in ids, summary and report, whichever process ran it."""
    suite.test(SUITE)
    alone = suite.run("--customop-report=alone.json", checks=None)
    apart = suite.run_apart("-n", "2", "--customop-report=apart.json", checks=None)
    assert len(suite.results("alone.json")) == 10
    assert comparable(suite, "alone.json") == comparable(suite, "apart.json")
    assert alone.parseoutcomes() == apart.parseoutcomes()
    assert summary_of(alone)[:-1] == summary_of(apart)[: len(summary_of(alone)) - 1]
    assert "own-finding" in "".join(summary_of(apart))


def test_the_first_failure_ends_the_session_and_the_report_stands(suite: Suite) -> None:
    suite.test(SUITE)
    suite.run("-x", "--customop-report=report.json", checks=None)
    assert outcomes(suite) == {"test_passed": "passed", "test_failed": "failed"}


def test_an_interrupted_session_is_reported_as_far_as_it_came(suite: Suite) -> None:
    suite.write(
        "conftest.py",
        (suite.path / "conftest.py")
        .read_text()
        .replace("raise RuntimeError(", "raise KeyboardInterrupt("),
    )
    suite.test(SUITE)
    with pytest.raises(KeyboardInterrupt):
        suite.run("--customop-report=report.json", checks=None)
    assert outcomes(suite) == {
        "test_passed": "passed",
        "test_failed": "failed",
        "test_error": "error",
    }
    (interrupted,) = (record for record in suite.results() if record["outcome"] == "error")
    assert interrupted["message"] == "interrupted while it ran"
    assert interrupted["check"] == "own.breaks"


def test_a_fixture_that_fails_is_an_error_of_every_check(suite: Suite) -> None:
    suite.test("""
@pytest.fixture(autouse=True)
def everywhere():
    raise OSError("no disk")

@customop_cases(scale, [(tensor(3), 2)])
def test_scale(): ...
""")
    suite.run("--customop-report=report.json").assert_outcomes(errors=2)
    errors = [(record["outcome"], record["check"], record["message"]) for record in suite.results()]
    assert [error[:2] for error in errors] == [("error", "own.passes")] * 2
    assert all("no disk" in error[2] for error in errors)


def test_a_fixture_that_fails_afterwards_is_an_error_and_hides_no_finding(suite: Suite) -> None:
    suite.test("""
@pytest.fixture(autouse=True)
def everywhere():
    yield
    raise OSError("no disk")

@customop_cases(scale, [(tensor(3), 2)], checks=["own.passes", "own.fails"], requires_grad=False)
def test_scale(): ...
""")
    result = suite.run("--customop-report=report.json", checks=None)
    result.assert_outcomes(passed=1, failed=1, errors=2)
    by_check = {
        record["check"]: (record["outcome"], record["finding"]) for record in suite.results()
    }
    assert by_check == {"own.passes": ("error", None), "own.fails": ("failed", "own-finding")}


def test_customop_check_is_recorded(suite: Suite) -> None:
    suite.test("""
def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)
""")
    suite.run("--customop-report=report.json", checks="own,fake.forward").assert_outcomes(passed=1)
    recorded = [
        (record["nodeid"], record["check"], record["outcome"]) for record in suite.results()
    ]
    assert recorded == [
        ("test_it.py::test_by_hand", "fake.forward", "passed"),
        ("test_it.py::test_by_hand", "own.passes", "passed"),
    ]


def test_every_call_of_customop_check_is_recorded(suite: Suite) -> None:
    suite.test("""
def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)
    customop_check(scale, torch.ones(3, dtype=torch.float64), 2)
    customop_check(scale, tensor(3), 2)

@customop_cases(scale, [(tensor(3), 2)], requires_grad=False)
def test_body(customop_case, customop_check):
    customop_check(plain, customop_case())
""")
    suite.run("--customop-report=report.json", checks="own,body").assert_outcomes(passed=3)
    recorded = [
        (record["nodeid"][12:], record["check"], record["dtype"]) for record in suite.results()
    ]
    assert recorded == [
        ("test_body[cpu-float32-nograd-0-body]", "own.passes", "float32"),
        ("test_body[cpu-float32-nograd-0-body]", "body", "float32"),
        ("test_body[cpu-float32-nograd-0-own.passes]", "own.passes", "float32"),
        ("test_by_hand", "own.passes", "float32"),
        ("test_by_hand", "own.passes", "float64"),
        ("test_by_hand", "own.passes", "float32"),
        ("test_by_hand", "own.passes", "float32"),
    ]


def test_an_expected_failure_of_checks_by_hand(suite: Suite) -> None:
    suite.test("""
@pytest.mark.xfail(reason="known")
def test_by_hand(customop_check):
    customop_check(scale, torch.ones(3), 2)
""")
    suite.run("--customop-report=report.json", checks="own.fails,own.passes,own.skips")
    by_check = {record["check"]: record["outcome"] for record in suite.results()}
    assert by_check == {"own.fails": "xfailed", "own.passes": "passed", "own.skips": "skipped"}


def test_several_reports(suite: Suite) -> None:
    suite.test(SUITE)
    result = suite.run("--customop-report=a.json", "--customop-report=b.json")
    result.stdout.fnmatch_lines(["report: *a.json", "report: *b.json"])
    assert suite.results("a.json") == suite.results("b.json")


def test_a_session_without_marked_tests_has_an_empty_report(suite: Suite) -> None:
    suite.write("test_other.py", "def test_other(): ...\n")
    suite.run("--customop-report=report.json").assert_outcomes(passed=1)
    assert suite.results() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_known_before_anything_runs(suite: Suite) -> None:
    suite.test(SUITE)
    folder = suite.path / "closed"
    folder.mkdir(mode=0o500)
    result = suite.run("--customop-report=closed/report.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "cannot be written" in result.stderr.str()


def test_a_folder_in_the_place_of_the_report_is_known_before_anything_runs(suite: Suite) -> None:
    suite.test(SUITE)
    (suite.path / "report.json").mkdir()
    result = suite.run("--customop-report=report.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "cannot be written" in result.stderr.str()
    assert "collected" not in result.stdout.str()


def test_a_write_that_fails_leaves_the_old_report_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_text("the old one")

    def full(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, b"new")
    assert path.read_text() == "the old one"
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_a_report_is_as_readable_as_other_files(tmp_path: Any) -> None:
    write_whole(tmp_path / "report.json", b"new")
    (tmp_path / "other").touch()
    modes = {(tmp_path / name).stat().st_mode for name in ("report.json", "other")}
    assert len(modes) == 1


@pytest.fixture
def on_github(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the step's summary."""
    summary = suite.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(suite.path))
    return summary


def test_a_job_on_github_has_a_summary_and_annotations(suite: Suite, on_github: Path) -> None:
    suite.test(SUITE)
    result = suite.run("--customop-report=github,report.md", checks=None)
    line = suite.line_of("def test_failed") - 1
    result.stdout.fnmatch_lines(
        [
            f"report: {on_github}",
            f"::error file=test_it.py,line={line},title=own-finding%3A *::output is wrong *",
            "report: *report.md",
        ]
    )
    assert on_github.read_text().strip() == (suite.path / "report.md").read_text().strip()
    assert "own-finding" in on_github.read_text()


def test_only_the_controller_writes_on_github(suite: Suite, on_github: Path) -> None:
    suite.test(SUITE)
    result = suite.run_apart("-n", "2", "--customop-report=github", checks=None)
    assert on_github.read_text().count("Operator conformance") == 1
    starts = [line.partition(" ")[0] for line in result.outlines if line.startswith("::")]
    assert starts == ["::error"] * 3 + ["::warning"]


def test_elsewhere_nothing_is_written_for_github(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    suite.test(SUITE)
    suite.write("pytest.ini", "[pytest]\ncustomop_report = github, report.json\n")
    result = suite.run(checks=None)
    result.stdout.fnmatch_lines(["report: no github summary, because GITHUB_STEP_SUMMARY is not *"])
    result.stdout.no_fnmatch_line("::error*")
    assert outcomes(suite) == OUTCOMES


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("report.jsn", "; did you mean '.json'?"),
        ("report.htm", "; did you mean '.html'?"),
        ("githib", "; did you mean 'github'?"),
        ("report.xml", "; JUnit is pytest's own --junitxml"),
        ("a.json,report.mdd", "; did you mean '.md'?"),
    ],
)
def test_an_unknown_ending_is_one_error(suite: Suite, given: str, hint: str) -> None:
    suite.test(SUITE)
    result = suite.run(f"--customop-report={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wrong = given.rpartition(",")[2]
    result.stderr.fnmatch_lines(
        [
            f"ERROR: --customop-report={wrong}: the ending says the format; "
            f"known: .json, .html, .md, github{hint}"
        ]
    )
