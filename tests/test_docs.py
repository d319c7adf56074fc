"""The documentation builds, and says what the code says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import pytest_customop
from pytest_customop.checks import builtin_checks, catalogue
from pytest_customop.plugin.options import ALL_OPTIONS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("**/*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]


def _links(page: Path) -> Iterator[tuple[Path, str]]:
    """The relative links of a page: the file that each names, and its anchor or nothing."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            yield (page.parent / name).resolve() if name else page, anchor


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _in_order(navigation: str | list | dict) -> Iterator[str]:
    """The pages of a navigation, which may have sections."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from _in_order(entry)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    for target, anchor in _links(page):
        assert target.exists(), f"{page.name} links to {target}, which does not exist"
        assert not anchor or anchor in _anchors(target), f"{page.name} links to #{anchor}"


def test_every_page_is_reachable_from_the_index_and_in_the_navigation() -> None:
    reached, new = set(), {ROOT / "docs" / "index.md"}
    while new:
        reached |= new
        new = {target for page in new for target, _ in _links(page)} & set(DOCS) - reached
    assert reached == set(DOCS)
    config = yaml.safe_load((ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8"))
    navigated = {ROOT / "docs" / name for name in _in_order(config["nav"])}
    assert navigated >= set(DOCS)


def test_it_builds_with_a_page_a_finding_and_one_of_the_api(tmp_path: Path) -> None:
    config = ROOT / ".ci" / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q"]
    reported = subprocess.run(
        [*command, "-f", str(config), "-d", str(tmp_path)], capture_output=True, text=True
    )
    assert reported.returncode == 0, reported.stdout + reported.stderr
    for code in catalogue():
        page = (tmp_path / "findings" / code / "index.html").read_text(encoding="utf-8")
        assert f">{code}</h1>" in page
    page = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    for name in pytest_customop.__all__:
        assert name.startswith("_") or f'<h2 id="{name.lower()}">' in page, name


def test_what_follows_from_the_code_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "tables.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_check_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    for check in builtin_checks():
        assert f"`{check.name}`" in page


def test_every_fault_names_a_test_that_there_is() -> None:
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for file, test in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source, test


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_on_a_page_is_one(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    options = {option.flag for option in ALL_OPTIONS}
    if page.name != "CHANGELOG.md":
        assert set(re.findall(r"--customop-[a-z-]*[a-z]", text)) <= options
