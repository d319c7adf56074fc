"""The examples of the transcript, the tutorial and the how-to pages run, and print what the pages say.

In these pages a block of code whose first line is a comment with a file name is that file. A block
`console` is a command after `$` and lines of what it prints; a line `...` stands for any that are left out,
and numbers of items may be others, as checks and variants are added.
Where a page has files and no command, its tests pass with a few cheap checks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pytest_customop.core.paths import PACKAGE_ROOT

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    DOCS / "first-ten-minutes.md",
    DOCS / "tutorial.md",
    *sorted((DOCS / "howto").glob("*.md")),
]
SLOW = {"first-ten-minutes", "tutorial", "cpp"}  # these run nearly all checks; the last builds C++
_COUNTS = r"\d+(?=\\ (?:ok|skip|tried|of\\ them|left|variants|defects)\b)"
CHEAP = ["--customop-checks=fake.forward,body", "--customop-variants=off"]


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each block of code."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _named(text: str) -> str:
    """The file that a block is, or nothing."""
    first = text.partition("\n")[0]
    match = re.fullmatch(r"(?:#|//) ([\w./-]+\.(?:py|toml|cpp|yml))", first)
    return match[1] if match else ""


# Hypothesis draws constants of modules that are not in site-packages. There, the plugin is.
_AS_INSTALLED = f"""
from hypothesis.internal.conjecture import providers

if hasattr(providers, "is_local_module_file"):
    is_local = providers.is_local_module_file
    own = {str(PACKAGE_ROOT)!r}
    providers.is_local_module_file = lambda path: not path.startswith(own) and is_local(path)
"""


def _assert_printed(expected: str, printed: str) -> None:
    """The parts between lines of dots are in the output, in this order."""
    at = 0
    for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE):
        pattern = re.sub(_COUNTS, r"\\d+", re.escape(part.strip("\n")))
        match = re.compile(pattern).search(printed, at)
        assert match, f"not printed, or not here:\n{part}\nin:\n{printed}"
        at = match.end()


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in SLOW)) for p in PAGES],
)
def test_the_examples_run(
    page: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "BUILD_NUMBER"):  # where pytest does not shorten
        monkeypatch.delenv(name, raising=False)
    pending = False
    passed = {pytest.ExitCode.OK}
    if page.stem == "fuzz":
        pytester.makeconftest(_AS_INSTALLED)
    if page.stem == "triton":  # whose module is skipped where there is no Triton
        passed.add(pytest.ExitCode.NO_TESTS_COLLECTED)
    for language, text in _blocks(page):
        if language == "yaml":
            assert yaml.safe_load(text)
        if name := _named(text):
            path = pytester.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            pending = pending or path.name.startswith("test_")
        elif language == "console":
            command, _, expected = text.partition("\n")
            program, *args = shlex.split(command.removeprefix("$ "))
            assert program == "pytest", command
            printed = pytester.runpytest_subprocess("-p", "no:randomly", *args, timeout=600)
            _assert_printed(expected, printed.stdout.str())
            pending = False
    if pending:
        result = pytester.runpytest_subprocess("-p", "no:randomly", *CHEAP, timeout=600)
        assert result.ret in passed, result.stdout.str()
