"""Run a check on a case and return its finding or its skip, for the tests of the checks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
import torch
import torch._dynamo

from pytest_customop import CheckResult
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile.errors import quiet
from pytest_customop.findings import CheckFailed, CheckSkipped, Finding
from pytest_customop.global_state.preserve import preserved_state


def family(name: str) -> dict[str, Callable[[Case], None]]:
    """The built-in checks of a family: what each runs, by the second part of its name."""
    checks = [check for check in builtin_checks() if check.family == name]
    return {check.name.partition(".")[2]: check.run for check in checks}


def finding(check: Callable[[Case], None], case: Case) -> Finding:
    """Run a check that must fail, on a case that works in eager mode, and return its finding."""
    assert case.eager.error is None
    with pytest.raises(CheckFailed) as caught:
        check(case)
    return caught.value.finding


def skipped(check: Callable[[Case], None], case: Case) -> CheckSkipped:
    """Run a check that must skip, on a case that works in eager mode, and return its skip."""
    assert case.eager.error is None
    with pytest.raises(CheckSkipped) as caught:
        check(case)
    return caught.value


def codes(results: Sequence[CheckResult], outcomes: Collection[str]) -> set[tuple[str, str]]:
    """The (check, code) pairs of the results with one of these outcomes."""
    return {
        (result.check, result.finding or result.skip_code or result.message)
        for result in results
        if result.outcome in outcomes
    }


def assert_scripts_fail(results: Sequence[CheckResult], path: Path) -> None:
    """Run the script of each failure and note, one a check and code: it must raise."""
    reported = [result for result in results if result.outcome in ("failed", "noted")]
    failed = {(result.check, result.finding): result for result in reported}
    shown = {result.check for result in failed.values() if result.reproduce is not None}
    reported_above = {check for check, code in failed if code == "eager-raises"}
    assert {check for check, _ in failed} <= shown | reported_above
    for place, result in failed.items():
        script = result.script()
        if script is None:
            continue
        script.write(path)
        if result.check == "relations.call_order":
            assert _fails_in_new_process(path, result.op), f"{place} is not shown by\n{script.text}"
            continue
        with preserved_state(), quiet(), pytest.raises(Exception):  # noqa: B017, PT011, PT012 -- whatever torch raises
            exec(compile(script.text, path, "exec"), {"__file__": str(path)})
            pytest.fail(f"{place} is not shown by\n{script.text}")
        torch._dynamo.reset()


def _fails_in_new_process(script: Path, op: str) -> bool:
    """Whether a script about a specimen of the zoo raises where the op was never called."""
    lines = (
        "import runpy, sys\n"
        "from tests.zoo.registry import specimens\n"
        f"specimens()[{op.partition('::')[2]!r}].op()\n"
        f"runpy.run_path({str(script)!r})\n"
    )
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run([sys.executable, "-c", lines], cwd=root, capture_output=True, text=True)
    return run.returncode != 0 and str(script) in run.stderr
