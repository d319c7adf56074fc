"""Every hook works as `docs/hooks.md` shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kit import HEAD, Suite

from pytest_customop import check_op, hookspecs, tensor

PAGE = Path(__file__).parents[1] / "docs" / "hooks.md"
OPS = (
    HEAD
    + """
@torch.library.custom_op("NS::inverse", mutates_args=())
def inverse(x: torch.Tensor) -> torch.Tensor:
    return 1 / x

@inverse.register_fake
def _(x):
    return torch.empty_like(x)

@customop_cases(
    inverse,
    [Sample((tensor(3, low=1, high=2),), id="usual"), Sample((tensor(3, fill=0),), id="zero")],
    requires_grad=False,
)
def test_inverse(): ...
"""
)


def example(title: str) -> str:
    """The conftest that a section of the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(# conftest.py\n.*?)^```", section, re.DOTALL | re.MULTILINE)
    return str(code)


@pytest.fixture
def sections(suite: Suite) -> Suite:
    """A suite with a marked test, whose conftest a test writes."""
    suite.test(OPS, ops="")
    return suite


def test_every_hook_is_on_the_page_and_has_an_example() -> None:
    hooks = [name for name in vars(hookspecs) if name.startswith("pytest_customop_")]
    text = PAGE.read_text(encoding="utf-8")
    for hook in hooks:
        assert f"| `{hook}" in text
        assert f"\ndef {hook}(" in text


def test_a_check(sections: Suite) -> None:
    sections.write("conftest.py", example("A check"))
    result = sections.run("--customop-checks=mine", checks=None)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  output-not-finite * 1 case  mine.finite"])


def test_a_finding_explained(sections: Suite) -> None:
    sections.write("conftest.py", example("A finding explained"))
    result = sections.run("--customop-checks=mine", checks=None)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["fix    Guard the division."])
    result = sections.run("--customop-explain=output-not-finite", checks=None)
    result.stdout.fnmatch_lines(
        ["output-not-finite", "*It may follow from: uninitialized-output.*"]
    )


def test_a_device(sections: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    sections.write("conftest.py", example("A device"))
    result = sections.run(
        "--customop-devices=cpu,cuda", "-rs", "--customop-checks=fake.forward", checks=None
    )
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*cuda is not available: the GPU of a desktop draws the screen"])


def test_the_cases_of_a_test(sections: Suite) -> None:
    sections.write("conftest.py", example("The cases of a test"))
    path = sections.path / "test_it.py"
    path.write_text(
        path.read_text()
        .replace('"zero"', '"huge"')
        .replace("requires_grad=False", "dtypes=[torch.float32, torch.float64]")
    )
    result = sections.run("-rs", "--customop-checks=fake.forward", checks=None)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*this machine has no float64"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_results_as_they_come(sections: Suite, workers: tuple[str, ...]) -> None:
    sections.write("conftest.py", example("Results as they come"))
    run = sections.run_apart if workers else sections.run
    run(*workers, "--customop-report=report.json", "--customop-checks=fake", checks=None)
    lines = (sections.path / "results.jsonl").read_text().splitlines()
    received = sorted((json.loads(line) for line in lines), key=json.dumps)
    assert received == sorted(sections.results(), key=json.dumps)
    assert received


def test_results_of_variants_and_of_checks_by_hand_come_one_by_one(sections: Suite) -> None:
    sections.write("conftest.py", example("Results as they come"))
    with (sections.path / "test_it.py").open("a") as file:
        file.write(
            "\ndef test_by_hand(customop_check):\n    customop_check(inverse, torch.ones(3))\n"
        )
    sections.run(
        "--customop-report=report.json",
        "--customop-checks=fake",
        "--customop-variants=quick",
        checks=None,
    )
    received = [
        json.loads(line) for line in (sections.path / "results.jsonl").read_text().splitlines()
    ]
    assert sorted(received, key=json.dumps) == sorted(sections.results(), key=json.dumps)
    assert any(record["variant"] for record in received)
    assert any("test_by_hand" in record["nodeid"] for record in received)


def test_an_error_of_the_hook_for_results_fails_the_run_once(sections: Suite) -> None:
    path = sections.write(
        "conftest.py", "def pytest_customop_result(result):\n    raise OSError('no network')\n"
    )
    result = sections.run("--customop-checks=fake", checks=None)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    errors = [line for line in result.outlines if line.startswith("ERROR")]
    assert errors == [
        f"ERROR: customop: pytest_customop_result at {path}:2 raised OSError: no network; later results "
        "were not passed on"
    ]


def test_the_hooks_outside_of_pytest() -> None:
    class Plugin:
        def pytest_customop_modify_cases(self, definition: object, planned: list[object]) -> None:
            assert definition is None
            planned.clear()

    assert check_op("aten::sin", [(tensor(3),)], checks="fake.forward", plugins=[Plugin()]) == []
