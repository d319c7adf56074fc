"""The example of a library that is older than its checks: its README, command by command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")  # with which the old suite compares
EXAMPLE = Path(__file__).parents[1] / "examples" / "oplib"
CHANGES = sorted(path.name for path in (EXAMPLE / "changes").iterdir())
HARVEST = "--customop-harvest=oplib"
BASELINE = "--customop-baseline=customop-baseline.toml"
# The README shows the same story with variants and more checks.
QUICK = ("--customop-checks=fake.forward", "--customop-variants=off")

DEFECTS = {
    ("pack_columns", "fake-stride-mismatch"),
    ("masked_mean", "fake-shape-mismatch"),
    ("scaled_dot", "gradient-mismatch"),
    ("softmax_rows", "undeclared-mutation"),
    ("patchify", "layout-dependent-result"),
}


class Copy:
    """A copy of the example."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        left_out = shutil.ignore_patterns("__pycache__", ".pytest_cache", "customop-baseline.toml")
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=left_out)

    def run(self, *args: str) -> pytest.RunResult:
        """pytest in a process of its own."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        ran = subprocess.run(
            [*command, *args], cwd=self.folder, env=env, capture_output=True, text=True, timeout=600
        )
        return pytest.RunResult(
            ran.returncode, ran.stdout.splitlines(), ran.stderr.splitlines(), 0.0
        )

    def harvest(self, *args: str) -> pytest.RunResult:
        """A harvest of few checks, with the baseline."""
        return self.run(HARVEST, BASELINE, "--customop-report=report.json", *QUICK, *args)

    def results(self) -> list[dict[str, Any]]:
        """The results of the last harvest."""
        return json.loads((self.folder / "report.json").read_text(encoding="utf-8"))["results"]

    def failed(self) -> set[tuple[str, str]]:
        """What failed in the last harvest: ops without their namespace, and findings."""
        return {
            (record["op"].removeprefix("oplib::"), record["finding"])
            for record in self.results()
            if record["outcome"] == "failed"
        }

    def change(self, name: str) -> None:
        """Apply one of the example's patches."""
        if shutil.which("patch") is None:
            pytest.skip("there is no patch")
        with (EXAMPLE / "changes" / name).open() as patch:
            subprocess.run(["patch", "-p1", "-s"], stdin=patch, cwd=self.folder, check=True)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Copy]:
    """A function that makes a copy with the baseline of the first day."""
    first = Copy(tmp_path_factory.mktemp("recorded"))
    result = first.harvest("--customop-update-baseline")
    assert result.ret == 0, result.stdout.str()
    baseline = first.folder / "customop-baseline.toml"

    def make(folder: Path) -> Copy:
        new_copy = Copy(folder)
        shutil.copy(baseline, folder)
        return new_copy

    return make


def outcomes(result: pytest.RunResult) -> list[str]:
    """How each test of the old suite ended, in order."""
    lines = [re.sub(r" +\[ *\d+%\]$", "", line) for line in result.outlines]
    return [line for line in lines if re.match(r"tests/\S+::.* (PASSED|FAILED|SKIPPED)", line)]


def test_the_suite_knows_nothing_of_the_plugin() -> None:
    for path in EXAMPLE.rglob("*.py"):
        assert "customop_c" not in path.read_text(encoding="utf-8")


def test_the_readme_names_defects_and_changes() -> None:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert {(op, code) for code, op in rows} == DEFECTS
    assert sorted(re.findall(r"< changes/(\S+)", text)) == CHANGES


@pytest.mark.slow
def test_harvest_finds_the_defects_and_no_others(copy: Copy) -> None:
    alone = copy.run("-v")
    assert alone.ret == 0
    result = copy.run(
        HARVEST,
        "-v",
        "--customop-checks=fake.forward,values.mutation,values.layouts,gradcheck.backward",
        "--customop-report=report.json",
    )
    assert result.ret == 1
    assert outcomes(result) == outcomes(alone)
    assert len(outcomes(alone)) >= 24
    assert copy.failed() == DEFECTS
    assert len({record["op"] for record in copy.results()}) == 12
    result.stdout.fnmatch_lines(["harvest: 26 calls in 24 tests, 23 signatures of 12 ops checked"])


@pytest.mark.slow
def test_green_with_the_baseline(recorded: Callable[[Path], Copy], tmp_path: Path) -> None:
    copy = recorded(tmp_path)
    result = copy.harvest("--customop-baseline-strict")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["Known failures:", "  fake-shape-mismatch * oplib::masked_mean *"])
    assert "Findings:" not in result.stdout.str()


@pytest.mark.slow
def test_a_fix_is_told(recorded: Callable[[Path], Copy], tmp_path: Path) -> None:
    copy = recorded(tmp_path)
    copy.change("fix-masked-mean.patch")
    out_of_date = [
        "Out of date in *",
        "  oplib::masked_mean  fake.forward  fake-shape-mismatch  no longer*",
    ]
    result = copy.harvest()
    assert result.ret == 0
    result.stdout.fnmatch_lines(out_of_date)
    result = copy.harvest("--customop-baseline-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(out_of_date)
    assert copy.failed() == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "op"),
    [
        ("break-segment-sum.patch", "segment_sum"),
        ("break-pack-columns-again.patch", "pack_columns"),
    ],
)
def test_another_failure_is_red(
    recorded: Callable[[Path], Copy], tmp_path: Path, change: str, op: str
) -> None:
    copy = recorded(tmp_path)
    copy.change(change)
    assert copy.run().ret == 0  # the old suite sees nothing
    result = copy.harvest()
    assert result.ret == 1
    assert copy.failed() == {(op, "fake-shape-mismatch")}
    assert "Known failures:" in result.stdout.str()


@pytest.mark.slow
def test_the_saved_tests_fail_as_the_harvest_did(copy: Copy) -> None:
    saved = "tests/test_customops.py"
    report = "--customop-report=report.json"
    copy.run(HARVEST, f"--customop-harvest-save={saved}", report, *QUICK)
    harvested = [(record["op"], record["outcome"], record["finding"]) for record in copy.results()]
    result = copy.run(saved, report, *QUICK)
    assert result.ret == 1
    written = [(record["op"], record["outcome"], record["finding"]) for record in copy.results()]
    assert sorted(map(str, written)) == sorted(map(str, harvested))
