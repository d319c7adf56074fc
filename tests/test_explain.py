"""`--customop-explain` and the pages of the catalogue."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest
from kit import HEAD, Suite

from pytest_customop.checks import builtin_checks, catalogue
from pytest_customop.core.suggest import nearest
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
    for page in (as_text(code, entry), as_markdown(code)):
        unwrapped = " ".join(page.split())
        for text in (code, entry.meaning, entry.why, entry.fix, *entry.docs):
            assert text in unwrapped
        for lines in (entry.before, entry.after):
            for line in lines.strip().splitlines():
                assert line.strip() in page
    assert max(map(len, as_text(code, entry).splitlines())) <= 100


def test_the_option_prints_the_page(suite: Suite) -> None:
    code = "undeclared-mutation"
    result = suite.run(f"--customop-explain={code}", checks=None)
    assert result.ret == 0
    assert as_text(code, catalogue()[code]) in result.stdout.str()


def test_a_check_is_explained_too(suite: Suite) -> None:
    result = suite.run("--customop-explain=fake.forward", checks=None)
    assert result.ret == 0
    text = " ".join(result.stdout.str().split())
    (check,) = (check for check in builtin_checks() if check.name == "fake.forward")
    assert text.startswith(f"fake.forward {check.summary}")
    assert "fake-stride-mismatch" in text
    assert " Cannot see: " in text
    assert max(map(len, result.outlines)) <= 100


CONFTEST = """
from pytest_customop import Explanation

def fits(case):
    if case.eager.result.numel() > 3:
        raise fail("team-too-large", "output has more than 3 elements")

def pytest_customop_register_checks():
    explanation = Explanation("An output is larger than our buffers.", "Return less.", why="They spill.")
    return [Check("team.fits", "the output is small", fits, findings={"team-too-large": explanation})]
"""


def test_a_conftest_explains_its_checks_and_findings(suite: Suite) -> None:
    suite.write("conftest.py", CONFTEST, head=HEAD)
    result = suite.run("--customop-explain=team-too-large", checks=None)
    assert result.ret == 0
    assert [line for line in result.outlines if line] == [
        "team-too-large",
        "An output is larger than our buffers.",
        "They spill.",
        "What to change: Return less.",
    ]
    result = suite.run("--customop-explain=team.fits", checks=None)
    assert [line for line in result.outlines if line] == [
        "team.fits",
        "the output is small",
        "Findings: team-too-large.",
    ]


def test_the_fix_of_a_conftest_ends_its_failures(suite: Suite) -> None:
    suite.write("conftest.py", CONFTEST, head=HEAD)
    suite.test("@customop_cases(scale, [(tensor(4), 2)], requires_grad=False)\ndef test(): ...\n")
    result = suite.run(checks="team")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fix * Return less."])


def test_a_finding_that_is_no_explanation_is_an_error(suite: Suite) -> None:
    suite.write("conftest.py", CONFTEST.replace("explanation}", "'Return less.'}"), head=HEAD)
    result = suite.run("--customop-explain=team-too-large", checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "check team.fits: findings['team-too-large'] is a pytest_customop.Explanation, "
        "not 'Return less.'"
    ) in result.stderr.str()


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("fake-stride-mismach", "did you mean 'fake-stride-mismatch'?"),
        ("fake-strides", "did you mean 'fake-stride-mismatch'?"),
        ("fake.forwards", "did you mean 'fake.forward'?"),
        ("own.pass", "did you mean 'own.passes'?"),
        ("zebra", "unknown finding or check 'zebra'; name a finding"),
        ("", "it is empty; name a finding (the first word of a failure) or a check"),
    ],
)
def test_an_unknown_name_is_one_error(suite: Suite, name: str, reported: str) -> None:
    suite.test("@customop_cases(scale, [(tensor(4), 2)])\ndef test(): ...\n")
    result = suite.run(f"--customop-explain={name}", checks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line]
    assert len(lines) == 1
    assert lines[0].startswith(f"ERROR: --customop-explain={name}: ")
    assert reported in lines[0]
    assert not result.outlines


@pytest.mark.parametrize(
    ("name", "allowed", "expected"),
    [
        ("fake-strides", ["fake-raises", "fake-stride-mismatch", "stride"], "fake-stride-mismatch"),
        ("mutation", ["mutation-missing", "values.rotation"], "mutation-missing"),
        ("flaot32", ["float16", "float32", "int32"], "float32"),
        ("Float32", ["float16", "float32", "int32"], "float32"),
        ("zebra.stripes", ["values.repeat", "state.rng"], None),
        ("fake", ["int8", "values"], None),
        ("x", [], None),
        ("", ["x"], None),
    ],
)
def test_the_nearest_name_is_near_by_spelling_or_by_words(
    name: str, allowed: list[str], expected: str | None
) -> None:
    assert nearest(name, allowed) == expected
