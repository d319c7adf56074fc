"""The report as Markdown, and what GitHub shows of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reports import every_state, hostile, report, result

from pytest_customop.report import github, markdown
from pytest_customop.report.formats import render


def test_the_title_counts_every_state() -> None:
    title = markdown.render(every_state()).splitlines()[0]
    assert "3 failed, 1 error, 1 unexpected pass, 1 known failure, 1 note" in title
    assert "2 could not be checked, 1 passed, 1 skipped" in title


def test_the_grid_has_the_worst_of_each_cell() -> None:
    lines = markdown.render(every_state()).splitlines()
    grid = [line for line in lines if line.startswith("|")][:3]
    assert grid[0] == "| op | compile.static | fake.forward | not run |"
    cells = grid[2].split(" | ")
    assert re.findall(r"\d+(?:/\d+)?", "".join(cells[1:])) == ["1", "2/9", "1"]


def test_a_grid_of_many_checks_has_families() -> None:
    results = [result(check=f"{family}.{number}") for family in "ab" for number in range(9)]
    text = render(report(*results), ".md")
    assert "| op | a | b |" in text


def test_a_defect_is_told_once_with_what_follows_from_it() -> None:
    text = markdown.render(every_state())
    assert text.count("real (1, 3), fake (3, 1)") == 1
    assert "The same defect, or one that may follow from it" in text
    assert "compile-stride-assert" in text
    assert "pytest 'test_it.py::test_op[cpu-float32-nograd-1-fake.forward]'" in text
    for part in ("strides are not the real", "return the real strides", "import torch"):
        assert part in text.replace("&#39;", "'")


def test_notes_known_failures_and_what_was_not_checked_have_tables() -> None:
    text = markdown.render(every_state())
    for part in ("Known failures (1)", "see &#35;12", "Notes, which are no failures (1)"):
        assert part in text
    for part in ("another rank", "What could not be checked (2)", "a kink", "cuda is not here"):
        assert part in text
    for part in ("shard 1 of 2", "1 of 2 ops has no case"):
        assert part in text


def test_a_report_of_nothing_and_one_of_schema_1() -> None:
    assert "nothing ran" in markdown.render(report())
    bare = {name: result()[name] for name in ("nodeid", "op", "check", "outcome", "message")}
    old = {"schema": 1, "results": [bare, {**bare, "outcome": "failed", "finding": "x"}]}
    assert "1 failed, 1 passed" in markdown.render(old)


def test_the_same_report_gives_the_same_text() -> None:
    assert markdown.render(every_state()) == markdown.render(every_state())


def test_whatever_a_user_controls_is_inert() -> None:
    """Outside of blocks of code there is no tag, link, mention or line that a user has written."""
    text = render(hostile(), ".md")
    outside, fence = [], None
    for line in text.splitlines():
        bare = re.fullmatch(r"(`{3,})\w*", line)
        if fence is None and bare:
            fence = bare[1]
        elif fence is not None:
            fence = None if line == fence else fence
        else:
            outside.append(line)
    assert fence is None
    rest = "\n".join(outside)
    assert set(re.findall(r"</?\w+", rest)) <= {
        *("<details", "</details", "<summary", "</summary", "<code", "</code", "<b", "</b"),
        *("<sub", "</sub", "<br"),
    }
    assert rest.count("<details>") == rest.count("</details>")
    for sign in ("@", "`", "alert(1)>", "\x1b", "\x00", "# x", "](", "onerror=alert(1)>"):
        assert sign not in re.sub(r"^#+ ", "", rest, flags=re.M), sign
    heads = [line for line in outside if line.startswith("#")]
    assert len(heads) == 2
    widths = {line.count("|") for line in outside if line.startswith("| ")}
    assert widths == {3, 5}  # the grid has two columns, the other tables have four


def test_a_thousand_failures_fit_into_a_comment_and_a_summary() -> None:
    results = [
        result(number, "failed", message=f"m {number}", evidence="e" * 2000, op=f"ns::op{number}")
        for number in range(1000)
    ]
    for limit, least in ((markdown.COMMENT, 20), (markdown.SUMMARY, 200)):
        text = markdown.render(report(*results), limit)
        assert len(text.encode()) <= limit
        assert re.search(r"^\d+ more parts of this report: the page", text, re.M)
        assert least < text.count("<details>") < 1000
        assert "torch 2.15.0" in text  # what comes last


# GitHub


def test_an_annotation_stands_at_the_mark() -> None:
    root = Path("/repo/python")
    first, *_ = github.annotation_lines(report(result(1, "failed")), root, Path("/repo"))
    assert first == (
        "::error file=python/test_it.py,line=12,title=fake-stride-mismatch%3A ns%3A%3Aop"
        "::output: strides differ [fake.forward, 1 case]%0Areturn the real strides%0A"
        "pytest 'test_it.py::test_op[cpu-float32-nograd-1-fake.forward]'"
    )


def test_each_defect_has_one_annotation_and_ten_are_shown() -> None:
    assert len(github.annotation_lines(every_state(), Path("/"), Path("/"))) == 3
    many = report(*(result(number, "failed", message=str(number)) for number in range(30)))
    lines = github.annotation_lines(many, Path("/"), Path("/"))
    assert len(lines) == 10
    assert lines[-1].endswith("and 21 more failures")


def test_an_annotation_is_one_line_with_one_command() -> None:
    for line in github.annotation_lines(hostile(), Path("/r"), Path("/r")):
        assert re.match("::(error|warning) ", line)
        assert line.splitlines() == [line]
        assert line.isprintable()
        properties = line.partition(" ")[2].partition("::")[0]
        assert [part.partition("=")[0] for part in properties.split(",")] == [
            "file",
            "line",
            "title",
        ]
        assert "%250A" in line


def test_a_summary_is_added_to_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_text("before\n")
    github.append_summary(path, "after\n")
    assert path.read_text() == "before\n\nafter\n"
    with pytest.raises(OSError, match="larger than GitHub accepts"):
        github.append_summary(path, "x" * 2**20)
    assert path.read_text() == "before\n\nafter\n"
