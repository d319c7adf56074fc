"""`--customop-fuzz` with the baseline, limits, shards, the last failures, scripts and the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import HEAD, Suite

pytest.importorskip("hypothesis")
pytestmark = pytest.mark.usefixtures("no_constants_of_modules")

FILE = "known.toml"
OPS = (
    HEAD
    + """
import ctypes
import os
import time
KEPT = []

@torch.library.custom_op("NS::weigh", mutates_args=())
def weigh(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x * w
    wrong = os.environ.get("WRONG", "") if x.shape[0] > 4 else ""
    if wrong == "sleep":
        time.sleep(1000)
    if wrong == "memory":
        KEPT.append(bytearray(3 << 30))
        time.sleep(5)
    if wrong == "both":
        wrong = "dtype" if x.shape[0] % 2 else "stride"
    if wrong == "stride":
        return out.t().contiguous().t()
    return out.double() if wrong == "dtype" else out

@weigh.register_fake
def _(x, w):
    return torch.empty_like(x)
"""
)
TESTS = """
@customop_cases(weigh, [(tensor(4, 6), tensor(6)), (tensor(2, 3), tensor(3))], requires_grad=False)
def test_weigh(): ...
"""
ITEM = "test_it.py::test_weigh[cpu-float32-nograd-fuzz-fake.forward]"


@pytest.fixture
def wrong(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets what is wrong for more than four rows."""
    suite.test(TESTS, ops=OPS)
    return lambda word: monkeypatch.setenv("WRONG", word)


def run(suite: Suite, *args: str, apart: bool = False, count: int = 60) -> pytest.RunResult:
    start = suite.run_apart if apart else suite.run
    options = (f"--customop-fuzz={count}", "--customop-report=report.json", *args)
    return start(*options, checks="fake.forward")


def generated(suite: Suite) -> list[dict[str, Any]]:
    return [record for record in suite.results() if "-fuzz-" in record["nodeid"]]


def test_a_finding_is_recorded_and_expected_from_then_on(suite: Suite, wrong: Any) -> None:
    option = f"--customop-baseline={FILE}"
    wrong("dtype")
    recorded = run(suite, option, "--customop-update-baseline")
    recorded.assert_outcomes(passed=2, xfailed=1, skipped=0)
    text = (suite.path / FILE).read_text(encoding="utf-8")
    assert 'finding = "fake-dtype-mismatch"' in text
    assert 'samples = ["generated"]\nvariants = ["fuzz"]' in text

    run(suite, option).assert_outcomes(passed=2, xfailed=1)
    (record,) = generated(suite)
    assert (record["outcome"], record["finding"]) == ("xfailed", "fake-dtype-mismatch")

    wrong("stride")
    result = run(suite, option)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([f"known  {FILE} has another finding here: fake-dtype-mismatch"])


def test_a_baseline_says_what_is_not_found_any_more(suite: Suite, wrong: Any) -> None:
    option = f"--customop-baseline={FILE}"
    wrong("dtype")
    run(suite, option, "--customop-update-baseline")
    # Nothing is said of an entry where no input was generated.
    without = suite.run(option, "--customop-baseline-strict", checks="fake.forward")
    assert without.ret == 0
    wrong("")
    mended = run(suite, option, "--customop-baseline-strict")
    assert mended.ret == pytest.ExitCode.TESTS_FAILED
    mended.stdout.fnmatch_lines([f"*{FILE} has 1 entry that no longer fails*"])
    run(suite, option, "--customop-update-baseline")
    assert "fake-dtype-mismatch" not in (suite.path / FILE).read_text(encoding="utf-8")


def test_defects_that_change_places_are_still_expected(suite: Suite, wrong: Any) -> None:
    option = f"--customop-baseline={FILE}"
    wrong("both")
    run(suite, option, "--customop-update-baseline").assert_outcomes(passed=2, xfailed=1)
    variants = {record["finding"]: record["variant"] for record in generated(suite)}
    assert set(variants) == {"fake-dtype-mismatch", "fake-stride-mismatch"}
    second = next(code for code, variant in variants.items() if variant == "fuzz.2")
    wrong({"fake-dtype-mismatch": "dtype", "fake-stride-mismatch": "stride"}[second])
    run(suite, option).assert_outcomes(passed=2, xfailed=1)
    assert [(record["finding"], record["variant"]) for record in generated(suite)] == [
        (second, "fuzz")
    ]


def test_an_input_on_which_the_op_hangs_ends_the_item(suite: Suite, wrong: Any) -> None:
    wrong("sleep")
    result = run(suite, "--customop-timeout=5", "--customop-isolate=on", apart=True)
    result.assert_outcomes(passed=2, failed=1)
    (record,) = generated(suite)
    assert record["finding"] == "hang"
    assert "Sample((tensor(" in record["evidence"]
    assert "--customop-timeout=5" in record["repro"]
    assert record["duration"] < 60


def test_an_input_that_takes_too_much_memory_ends_the_item(suite: Suite, wrong: Any) -> None:
    wrong("memory")
    result = run(suite, "--customop-memory=2", "--customop-isolate=on", apart=True)
    result.assert_outcomes(passed=2, failed=1)
    (record,) = generated(suite)
    assert record["finding"] == "crash"
    result.stdout.fnmatch_lines(["crash: * takes more than 2 GB of memory in a plain call"])


def test_each_item_is_in_one_shard(suite: Suite, wrong: Any) -> None:
    wrong("dtype")
    seen: list[str] = []
    for shard in ("1/2", "2/2"):
        run(suite, f"--customop-shard={shard}")
        seen += [record["nodeid"] for record in suite.results()]
    assert len(seen) == len(set(seen)) == 3
    assert ITEM in seen


def test_samples_that_are_left_out_are_no_templates(suite: Suite, wrong: Any) -> None:
    wrong("")
    run(suite, "--customop-max-samples=1")
    assert {record["outcome"] for record in generated(suite)} <= {"passed", "noted"}
    (kept,) = {record["sample"] for record in suite.results() if record not in generated(suite)}
    wrong("dtype")
    run(suite, "--customop-max-samples=1")
    assert {record["sample"] for record in generated(suite)} == {kept}


def test_the_last_failure_runs_again_alone(suite: Suite, wrong: Any) -> None:
    wrong("dtype")
    run(suite)
    again = run(suite, "--lf")
    again.assert_outcomes(failed=1)
    assert [record["nodeid"] for record in suite.results()] == [ITEM]
    # Its item is not there in a session that generates no inputs, which runs all the others then.
    suite.run("--lf", checks="fake.forward").assert_outcomes(passed=2)


def test_the_script_shows_the_finding_without_pytest(suite: Suite, wrong: Any) -> None:
    wrong("dtype")
    run(suite, "--customop-repro-dir=repro")
    (path,) = Path(suite.path, "repro").glob("*.py")
    ran = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert "the fake kernel promises" in ran.stderr


def test_the_report_says_what_was_tried(suite: Suite, wrong: Any) -> None:
    wrong("dtype")
    run(suite)
    (record,) = generated(suite)
    assert record["variant"] == "fuzz"
    assert record["changed"].startswith("sizes x 5x")
    assert record["arguments"][0].startswith("x = tensor(5, ")
    assert "assert promised == got" in record["script"]
    assert "--customop-fuzz=60" in record["repro"]
