"""The report as a page: what it says, that nothing in it runs, and how large it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from kit import Suite
from reports import PICTURE, every_state, hostile, report, result

from pytest_customop.report import page
from pytest_customop.report.formats import render


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.rows: Any = None
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and self.tags[-1][1].get("id") == "rows":
            self.rows = json.loads(data)
        elif self._inside not in ("script", "style"):
            self.said += data

    def having(self, name: str) -> list[str]:
        """The values of an attribute."""
        return [str(attributes[name]) for _, attributes in self.tags if name in attributes]


def test_every_state_has_its_place() -> None:
    parsed = Page(render(every_state(), ".html"))
    for part in ("3 distinct failures in 1 of 1 op", "real (1, 3), fake (3, 1)", "see #12"):
        assert part in parsed.said
    for part in ("another rank", "a kink", "shard 1 of 2", "1 of 2 ops has no case", "7", "2.15.0"):
        assert part in parsed.said
    assert "output[1, :, :] of shape (2, 1, 2)" in parsed.said
    assert "The box is the largest difference, 0.5, at [1, 0, 1]." in parsed.said
    assert len([name for name in parsed.having("id") if name.startswith("card-")]) == 5
    sections = [
        section
        for tag, attributes in parsed.tags
        if tag == "section"
        if (section := attributes["id"])
    ]
    assert sections == [
        *("results", "failures", "known", "notes", "unchecked", "findings", "time", "environment")
    ]


def test_the_rows_are_the_results() -> None:
    rows = Page(page.render(every_state())).rows
    columns, texts = rows["columns"], rows["texts"]
    assert rows["count"] == 11
    assert texts[columns["op"]] == "ns::op"
    assert [rows["states"][at][0] for at in columns["state"]] == [
        *("passed", "failed", "failed", "failed", "error", "xpassed", "known", "noted"),
        *("unchecked", "skipped", "unchecked"),
    ]
    # The consequence and the repetition are shown by the card of their cause.
    assert columns["card"][1:4] == [1, 1, 1]
    case = texts[columns["case"][0]]
    assert (texts[columns["test"]], case) == ("test_it.py::test_op[", "cpu-float32-nograd-0")


def test_nothing_that_a_user_writes_runs() -> None:
    parsed = Page(render(hostile(), ".html"))
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    for _, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert not attributes.keys() & {"src", "style", "srcdoc", "action"}
    links = parsed.having("href")
    assert links
    assert all(link.startswith(("#finding-", "data:,", "data:image/png;base64,")) for link in links)
    assert parsed.said.count("<img src=x onerror=alert(1)>") > 40
    assert "alert(1)" in json.dumps(parsed.rows)


def test_what_is_no_picture_is_not_shown() -> None:
    for wrong in ("javascript:alert(1)", "<svg>", "", 3.5):
        failure = result(1, "failed", picture={**PICTURE, "expected": wrong})
        assert "<image" not in page.render(report(failure))


def test_only_the_script_and_the_styles_of_the_page_may_run() -> None:
    text = page.render(every_state())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=\"(https?:)?//", text.replace("https://docs.pytorch.org", ""))


def test_a_report_of_nothing_and_one_of_schema_1() -> None:
    assert "Nothing was checked" in page.render(report())
    bare = {name: result()[name] for name in ("nodeid", "op", "check", "outcome", "message")}
    old = {"schema": 1, "results": [bare, {**bare, "outcome": "failed", "finding": "x"}]}
    assert "1 distinct failure in 1 of 1 op" in page.render(old)


def _many(failures: int) -> dict[str, Any]:
    """10,000 results of 50 ops; a failure has two kilobytes of script."""
    results = []
    for number in range(10_000):
        fields: dict[str, Any] = {"op": f"mylib::operator_{number % 50}"}
        fields["check"] = f"{'abcdefghi'[number % 9]}.check_{number % 3}"
        if number < failures:
            fields |= {"message": f"output {number} differs", "script": f"x = {number}\n" * 250}
        results.append(result(number, "failed" if number < failures else "passed", **fields))
    return report(*results)


@pytest.mark.parametrize("failures", [0, 500, 10_000])
def test_ten_thousand_results_are_less_than_two_megabytes(failures: int) -> None:
    text = page.render(_many(failures))
    assert len(text.encode()) < 2_000_000
    assert ("Not shown in full" in text) == (failures > 0)


def test_the_same_report_gives_the_same_page() -> None:
    assert page.render(every_state()) == page.render(every_state())


def test_a_session_writes_its_page(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [Sample((tensor(3), 2), id="</script><script>alert(1)")], requires_grad=False)
def test_scale(): ...
""")
    result = suite.run("--customop-report=report.html,report.json", checks="own.fails,own.passes")
    result.stdout.fnmatch_lines(["report: *report.html", "report: *report.json"])
    text = (suite.path / "report.html").read_text("utf-8")
    assert "own-finding" in text
    assert text == render(json.loads((suite.path / "report.json").read_text()), ".html")


@pytest.mark.usefixtures("new_interpreters")
def test_pages_are_rendered_without_torch_and_jinja_is_imported_for_a_page_alone() -> None:
    script = (
        "import sys\n"
        "from pytest_customop.report.formats import render\n"
        "render({'results': []}, '.md')\n"
        "print(sorted({'torch', 'pytest', 'jinja2'} & set(sys.modules)))\n"
        "render({'results': []}, '.html')\n"
        "print(sorted({'torch', 'pytest'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "[]"]
