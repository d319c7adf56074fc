"""`--customop-explain` and the pages of the catalogue."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest
from kit import Suite

from pytest_customop.checks import catalogue
from pytest_customop.report.explain import as_markdown, as_text


@pytest.mark.parametrize("code", catalogue())
def test_every_entry_is_whole(code: str) -> None:
    entry = catalogue()[code]
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", code)
    for text in (entry.meaning, entry.fix, entry.why):
        assert text.endswith("."), f"{code}: {text!r} is not a sentence"
    if code != "opcheck-failure":  # whose cause torch's message tells
        assert entry.before.strip()
        assert entry.after.strip()
        assert entry.before.strip() != entry.after.strip()
    for lines in (entry.before, entry.after):
        ast.parse(textwrap.dedent(lines))
        assert len(lines.strip().splitlines()) <= 14
    assert entry.docs
    for address in entry.docs:
        assert re.match(r"https://(docs\.)?pytorch\.org/", address), address


def test_a_page_has_everything() -> None:
    code = "fake-stride-mismatch"
    entry = catalogue()[code]
    for page in (as_text(code), as_markdown(code)):
        words = " ".join(page.split())
        for text in (code, entry.meaning, entry.why, entry.fix, *entry.docs):
            assert text in words
        for lines in (entry.before, entry.after):
            for line in lines.strip().splitlines():
                assert line.strip() in page
    assert max(map(len, as_text(code).splitlines())) <= 100


def test_the_option_prints_the_page(suite: Suite) -> None:
    result = suite.run("--customop-explain=undeclared-mutation", checks=None)
    assert result.ret == 0
    assert as_text("undeclared-mutation") in result.stdout.str()


def test_an_unknown_code_is_one_error(suite: Suite) -> None:
    result = suite.run("--customop-explain=fake-stride-mismach", checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "did you mean 'fake-stride-mismatch'?" in result.stderr.str()
