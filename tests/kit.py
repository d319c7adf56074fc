"""A small suite of marked tests, which pytest runs inside pytest: shared by the tests of the plugin.

Ops are registered per process and cannot be registered twice, so every suite has a namespace of its
own: `NS` in any source is replaced by it.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch._dynamo  # before pytester remembers what is imported
from jsonschema import Draft202012Validator

from pytest_customop.report.schema import schema

_numbers = itertools.count()

# Of the terminal, so that no line is wrapped; `test_summary.py` has narrow ones.
COLUMNS = "250"

# A device type that torch knows and this machine does not have.
ABSENT = "xpu" if torch.cuda.is_available() else "cuda"

HEAD = """
import pytest
import torch
from typing import List, Optional, Sequence
from pytest_customop import Check, GradOptions, Sample, customop_cases, fail, skip, tensor
"""

# `op(name, does)` registers an op that calls `does(x)` and then copies its argument.
DOING = (
    HEAD
    + """
def op(name, does):
    def kernel(x: torch.Tensor) -> torch.Tensor:
        does(x)
        return x.clone()

    made = torch.library.custom_op("NS::" + name, kernel, mutates_args=())
    made.register_fake(torch.empty_like)
    return made
"""
)

# A correct op with a formula, and one without.
OPS = (
    HEAD
    + """
CALLS = []

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    CALLS.append(n)
    return x * n

@scale.register_fake
def _(x, n):
    return torch.empty_like(x)

def keep(ctx, inputs, output):
    ctx.n = inputs[1]

scale.register_autograd(lambda ctx, grad: (grad * ctx.n, None), setup_context=keep)

@torch.library.custom_op("NS::plain", mutates_args=())
def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1

@plain.register_fake
def _(x):
    return torch.empty_like(x)
"""
)

# A third party's checks: one that passes, and one of each other kind, which run only when asked for.
OWN_CHECKS = (
    HEAD
    + """
def passes(case):
    assert case.eager.error is None

def fails(case):
    raise fail("own-finding", "output is wrong", "the evidence", fix="change it")

def skips(case):
    raise skip("own-reason", "it cannot be judged here")

def breaks(case):
    raise RuntimeError("a broken check")

def pytest_customop_register_checks():
    return [
        Check("own.passes", "a check that passes", passes),
        Check("own.fails", "a check that fails", fails, default=False),
        Check("own.skips", "a check that skips", skips, default=False),
        Check("own.breaks", "a check that breaks", breaks, default=False),
    ]
"""
)


class _Keeper:
    """Keeps the modules that a run inside this process imported and pytester would unload.

    torch cannot be imported twice; those of the suite itself go, as they should.
    """

    def __init__(self, folder: Path, kept: dict[str, ModuleType]) -> None:
        self.folder = str(folder)
        self.kept = kept

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        for name, module in list(sys.modules.items()):
            if not str(getattr(module, "__file__", None) or "").startswith(self.folder):
                self.kept[name] = module


class Suite:
    """A folder with a conftest that brings the family `own`, and test files."""

    def __init__(
        self, pytester: pytest.Pytester, name: str, kept_modules: dict[str, ModuleType]
    ) -> None:
        self.pytester = pytester
        self.kept_modules = kept_modules
        self._begin(pytester.path, name)

    def _begin(self, path: Path, name: str) -> None:
        self.path = path
        word = re.sub(r"\W+", "_", name).strip("_").lower()[:40]
        self.ns = f"{word}_{os.getpid()}_{next(_numbers)}"
        self.write("conftest.py", OWN_CHECKS)

    def write(self, name: str, source: str, *, head: str = "") -> Path:
        """Write a file; `NS` in it becomes the suite's namespace."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((head + source).replace("NS::", f"{self.ns}::"), encoding="utf-8")
        return path

    def test(self, source: str, name: str = "test_it.py", ops: str = OPS) -> Path:
        """Write a test file that begins with ops."""
        return self.write(name, source, head=ops)

    def line_of(self, text: str, name: str = "test_it.py") -> int:
        """The number of the first line that has this text."""
        lines = (self.path / name).read_text(encoding="utf-8").splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)

    def run(self, *args: str, checks: str | None = "own") -> pytest.RunResult:
        """Run the suite in this process, with the family `own` unless `checks` says otherwise."""
        keeper = _Keeper(self.path, self.kept_modules)
        try:
            return self.pytester.runpytest_inprocess(*self._args(args, checks), plugins=[keeper])
        finally:
            for name, module in self.kept_modules.items():
                sys.modules.setdefault(name, module)

    def run_apart(self, *args: str, checks: str | None = "own") -> pytest.RunResult:
        """Run the suite in a process of its own: for xdist, imports, and what kills a process."""
        return self.pytester.runpytest_subprocess(*self._args(args, checks), timeout=300)

    def _args(self, args: Sequence[str], checks: str | None) -> list[str]:
        selected = [f"--customop-checks={checks}"] if checks else []
        if not any(str(argument).startswith("--customop-variants") for argument in args):
            selected.append("--customop-variants=off")  # a test is of the samples that it gives
        return ["-p", "no:randomly", *selected, *args]

    def ids(self, *args: str, checks: str | None = "own") -> list[str]:
        """The node ids that are collected, without the file, in order."""
        result = self.run("--collect-only", "-q", *args, checks=checks)
        lines = [line for line in result.outlines if "::" in line and line[0] not in "= "]
        return [line.partition("::")[2] for line in lines]

    def results(self, name: str = "report.json") -> list[dict[str, Any]]:
        """The results of a report."""
        return json.loads((self.path / name).read_text(encoding="utf-8"))["results"]

    def validate_reports(self) -> None:
        """Every report in the folder is as its JSON Schema says."""
        for path in filter(Path.is_file, self.path.rglob("*.json")):
            text = path.read_text(encoding="utf-8")
            if text.startswith('{\n "schema": 2,'):
                validate_report(json.loads(text))


class ModuleSuite(Suite):
    """A suite that all tests of a module look at; it runs in a process of its own.

    Args:
        path: an empty folder.
        name: of the module.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._temporary = path.with_name(f"{path.name}-basetemp")
        self._begin(path, name)

    def run(self, *args: str, checks: str | None = "own") -> pytest.RunResult:
        """Run the suite, with the family `own` unless `checks` says otherwise."""
        base = f"--basetemp={self._temporary}"
        command = [sys.executable, "-m", "pytest", base, *self._args(args, checks)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment["COLUMNS"] = COLUMNS
        ran = subprocess.run(
            command, cwd=self.path, env=environment, capture_output=True, text=True, timeout=300
        )
        return pytest.RunResult(
            ran.returncode, ran.stdout.splitlines(), ran.stderr.splitlines(), 0.0
        )

    run_apart = run


@functools.cache
def _validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def validate_report(report: object) -> None:
    """A report is as the JSON Schema of the package says."""
    _validator().validate(report)


def errors_of(result: pytest.RunResult) -> list[str]:
    """The lines of the errors section, without the frames around it."""
    lines = result.outlines
    starts = [i for i, line in enumerate(lines) if re.match(r"=+ ERRORS =+$", line)]
    if not starts:
        return []
    rest = lines[starts[0] + 1 :]
    ends = [i for i, line in enumerate(rest) if re.match(r"=+ .* =+$", line)]
    return rest[: ends[0]] if ends else rest


def assert_no_plugin_frames(result: pytest.RunResult) -> None:
    """No line of the output shows the inside of the plugin or of pytest."""
    text = result.stdout.str() + result.stderr.str()
    for inside in ("pytest_customop/", "pluggy/", "_pytest/", "INTERNALERROR", "Traceback"):
        assert inside not in text, text


def collection_errors(result: pytest.RunResult) -> dict[str, list[str]]:
    """By file, what the errors section says of its collection."""
    errors: dict[str, list[str]] = {}
    for line in errors_of(result):
        if heading := re.match(r"_+ ERROR collecting (.*?) _+$", line):
            lines = errors[heading[1]] = []
        elif line.strip():
            lines.append(line)
    return errors


def assert_one_error(result: pytest.RunResult, *parts: str) -> str:
    """The run ended at exactly one collection error, one line long, without a traceback.

    Returns:
        That line.
    """
    result.assert_outcomes(errors=1)
    headings = [line for line in result.outlines if "ERROR collecting" in line]
    assert len(headings) == 1, result.outlines
    reported = [line for line in errors_of(result) if line not in headings and line.strip()]
    assert len(reported) == 1, reported
    for part in parts:
        assert part in reported[0], reported[0]
    assert_no_plugin_frames(result)
    return reported[0]


def summary_of(result: pytest.RunResult) -> list[str]:
    """The plugin's part of the end of a session."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.strip("= ") == "customop")
    rest = lines[start + 1 :]
    return rest[: next(i for i, line in enumerate(rest) if line.startswith("==="))]
