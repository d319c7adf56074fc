"""The JSON Schema of reports, and reading reports of every version of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kit import Suite, validate_report
from made_results import report, result, write

from pytest_customop.report.json_file import render
from pytest_customop.report.read import ReportError, read_report
from pytest_customop.report.schema import SCHEMA, first_problem, schema

WHOLE = report(
    [
        result("failed", "fake-stride-mismatch", arguments=("tensor(3)",), line=3),
        result("passed", sample="1"),
        result("skipped", check=None, sample=None, device="cuda"),
    ]
)
# As the first version wrote it.
SCHEMA_1: dict[str, Any] = {
    "schema": 1,
    "environment": {
        "pytest_customop": "0.0.1",
        "torch": "2.12.0",
        "cuda": None,
        "pytest": "8.0.0",
        "python": "3.11.0",
        "platform": "Linux",
        "seed": 0,
        "backend": "inductor",
    },
    "results": [
        {
            "nodeid": "test_it.py::test_op[cpu-float32-nograd-wide~empty0-fake.forward]",
            "op": "ns::op",
            "check": "fake.forward",
            "device": "cpu",
            "dtype": "float32",
            "requires_grad": False,
            "layout": "contiguous",
            "sample": "wide~empty0",
            "outcome": "failed",
            "finding": "fake-stride-mismatch",
            "message": "wrong",
            "fix": "change it",
            "repro": "pytest test_it.py",
            "duration": 0.5,
        }
    ],
}


def properties(rule: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema with its path."""
    if "properties" in rule:
        yield path, rule
    for name, inner in rule.get("properties", {}).items():
        yield from properties(inner, f"{path}.{name}")
    for inner in (rule[name] for name in ("items", "additionalProperties") if name in rule):
        yield from properties(inner, f"{path}[]")


def test_the_schema_is_one_and_has_the_number_of_the_report() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["properties"]["schema"] == {"const": SCHEMA}
    assert schema()["$schema"].startswith("https://json-schema.org/")


def test_every_field_that_is_written_is_described_and_none_else() -> None:
    rules = dict(properties(schema()))
    assert set(WHOLE) == set(rules[""]["required"])
    assert set(WHOLE["environment"]) == set(rules[".environment"]["properties"])
    for record in WHOLE["results"]:
        assert list(record) == list(rules[".results[]"]["properties"])
        assert list(record) == rules[".results[]"]["required"]
    (finding,) = WHOLE["findings"].values()
    assert set(finding) == set(rules[".findings[]"]["properties"])


def test_a_report_of_nothing_and_one_of_something_are_valid() -> None:
    for content in (report(), WHOLE):
        validate_report(content)
        assert first_problem(content) is None


def wrong_reports() -> Iterator[tuple[str, Any]]:
    def changed(*path: Any, to: Any) -> Any:
        whole = copy.deepcopy(WHOLE)
        inner: Any = whole
        for step in path[:-1]:
            inner = inner[step]
        if to is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        return whole

    yield "it is [], not an object", []
    yield "schema is 3, not 2", changed("schema", to=3)
    yield "schema is true, not 2", changed("schema", to=True)
    yield 'it has no "results"', changed("results", to=...)
    yield "results is {}, not an array", changed("results", to={})
    yield "results[1] is null, not an object", changed("results", 1, to=None)
    yield 'results[0] has no "nodeid"', changed("results", 0, "nodeid", to=...)
    yield "results[0].op is 3, not a string", changed("results", 0, "op", to=3)
    yield "results[0].line is 0, less than 1", changed("results", 0, "line", to=0)
    yield "results[0].line is true, not an integer", changed("results", 0, "line", to=True)
    yield "results[0].line is 1.5, not an integer", changed("results", 0, "line", to=1.5)
    yield 'results[0].duration is "1", not a number', changed("results", 0, "duration", to="1")
    yield "results[0].arguments[0] is 3, not a string", changed("results", 0, "arguments", to=[3])
    cause = {"nodeid": "a", "op": "b", "check": 3, "variant": None}
    yield "results[0].cause.check is 3, not a string", changed("results", 0, "cause", to=cause)
    yield 'not "passed" or', changed("results", 0, "outcome", to="broken")
    yield (
        "findings.fake-stride-mismatch.why is 3",
        changed("findings", "fake-stride-mismatch", "why", to=3),
    )
    yield "coverage[0] is 3, not an object", changed("coverage", to=[3])


@pytest.mark.parametrize(("problem", "wrong"), [*wrong_reports()])
def test_a_wrong_report_is_wrong_for_jsonschema_too(problem: str, wrong: Any) -> None:
    assert problem in (first_problem(wrong) or "")
    with pytest.raises(jsonschema.ValidationError):
        validate_report(wrong)


def test_further_fields_are_allowed() -> None:
    later = copy.deepcopy(WHOLE)
    later["results"][0]["of_a_later_version"] = {"a": [1]}
    validate_report(later)
    assert first_problem(later) is None


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(render(WHOLE))
    assert read_report(path) == WHOLE
    path.write_text("\ufeff" + render(WHOLE), encoding="utf-8")
    assert read_report(path) == WHOLE


def test_schema_1_is_read_as_schema_2(tmp_path: Path) -> None:
    read = read_report(Path(write(tmp_path / "old.json", SCHEMA_1)))
    validate_report(read)
    assert (read["schema"], read["coverage"], read["findings"]) == (2, [], {})
    (record,) = read["results"]
    assert (record["sample"], record["variant"]) == ("wide", "empty0")
    assert (record["known"], record["arguments"], record["unjudged"]) == (None, [], False)
    assert record["finding"] == "fake-stride-mismatch"


def test_what_is_filled_in_is_not_shared(tmp_path: Path) -> None:
    old = {**SCHEMA_1, "results": SCHEMA_1["results"] * 2}
    first, second = read_report(Path(write(tmp_path / "old.json", old)))["results"]
    first["arguments"].append("x")
    assert second["arguments"] == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "is not a JSON report: Expecting value"),
        ("not json", "is not a JSON report: Expecting value"),
        ("[" * 100_000, "is not a JSON report: maximum recursion depth"),
        ("[1]", "is not a report of --customop-report: it names no schema"),
        ("{}", "is not a report of --customop-report: it names no schema"),
        ('{"schema": "2"}', "is not a report of --customop-report: it names no schema"),
        ('{"schema": 3}', "has schema 3; this version of pytest-customop reads schemas 1 to 2"),
        ('{"schema": 0}', "has schema 0, which does not exist"),
        ('{"schema": 1}', 'does not fit schema 1: it has no "environment"'),
        ('{"schema": 1, "results": 3}', 'does not fit schema 1: it has no "environment"'),
        ('{"schema": 2, "environment": []}', "does not fit schema 2: it has no"),
        (b"\xff\xfe\x00", "is not a JSON report: 'utf-8' codec can't decode"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_report_is_one_line(tmp_path: Path, content: str | bytes, why: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ReportError) as raised:
        read_report(path)
    assert why in str(raised.value)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ReportError, match=r"cannot be read: (No such file|Is a directory)"):
            read_report(path)


def test_reports_of_sessions_are_validated(suite: Suite) -> None:
    """The fixture `suite` validates what its tests leave there."""
    wrong = {**WHOLE, "results": [{}]}
    (suite.path / "sub").mkdir()
    path = suite.path / "sub" / "report.json"
    path.write_text(json.dumps(wrong, indent=1))
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        suite.validate_reports()
    path.unlink()
