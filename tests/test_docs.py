"""The documentation builds, and says what the code says."""

import re
import subprocess
import sys
from pathlib import Path

from pytest_customop.checks import builtin_checks, catalogue

ROOT = Path(__file__).parents[1]


def test_it_builds_with_a_page_a_finding(tmp_path: Path) -> None:
    config = ROOT / ".ci" / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q"]
    told = subprocess.run(
        [*command, "-f", str(config), "-d", str(tmp_path)], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr
    for code in catalogue():
        page = (tmp_path / "findings" / code / "index.html").read_text(encoding="utf-8")
        assert f">{code}</h1>" in page


def test_what_follows_from_the_code_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "tables.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_check_is_in_the_readme_and_in_the_docs() -> None:
    for name in ("README.md", "docs/checks.md"):
        page = (ROOT / name).read_text(encoding="utf-8")
        for check in builtin_checks():
            assert f"`{check.name}`" in page, f"{check.name} is not in {name}"


def test_every_fault_names_a_test_that_there_is() -> None:
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for file, test in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source, test
