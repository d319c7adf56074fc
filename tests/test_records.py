"""Records of results: what they carry between processes, and what reports need to print them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from pytest_customop import check_op, fail, tensor
from pytest_customop.checks import Check, builtin_checks, catalogue
from pytest_customop.findings import Explanation, Finding
from pytest_customop.plan.place import Place
from pytest_customop.report.json_file import as_report, as_schema_2
from pytest_customop.run.finding_records import finding_record
from pytest_customop.run.record import FindingRecord, ResultRecord, from_wire, to_wire

CHECKS = {check.name: check for check in builtin_checks()}
FULL = ResultRecord(
    nodeid="test_it.py::test_op[cpu-float32-nograd-a-variants-fake.forward]",
    op="ns::op",
    check="fake.forward",
    place=Place("cpu", "float32", False, "contiguous", "a", "empty0", "shape"),
    outcome="failed",
    message="output: wrong",
    finding=FindingRecord(
        "fake-stride-mismatch",
        "return the real strides",
        ("a", "b"),
        (3, 1, "c"),
        meaning="strides differ",
        why="compiled code reads wrong elements",
        before="empty(3)",
        after="empty_like(x)",
        docs=("https://docs.pytorch.org",),
    ),
    variant_description="empty along dim 0 of x",
    skip_code="some-reason",
    why_noted="some words",
    known="see #12",
    in_baseline=True,
    unjudged=True,
    accepted_by_fake=True,
    without_child="pytest runs them",
    by_hand=True,
    repro="pytest test_it.py",
    evidence="real (1, 3), fake (3, 1)",
    arguments=("x: float32[3]",),
    picture={"of": "output", "at": [1]},
    script="import torch",
    seed=7,
    file="test_it.py",
    line=12,
    text="fake-stride-mismatch: output: wrong",
    duration=1.5,
    generated=200,
)
BARE = ResultRecord("test_it.py::test_op", "ns::op", None, Place(), "skipped")


@pytest.mark.parametrize("record", [FULL, BARE], ids=["full", "bare"])
def test_a_record_comes_back_from_json_and_from_execnet(record: ResultRecord) -> None:
    execnet = pytest.importorskip("execnet")
    plain = to_wire(record)
    assert from_wire(json.loads(json.dumps(plain))) == record
    assert from_wire(execnet.loads(execnet.dumps(plain))) == record


def test_the_test_of_the_wire_sets_every_field() -> None:
    default = BARE
    same = [
        field.name
        for field in fields(FULL)
        if getattr(FULL, field.name) == getattr(default, field.name)
    ]
    assert same == ["op"]


def test_the_report_has_the_fields_of_schema_2_in_order() -> None:
    assert list(as_schema_2(FULL).items()) == [
        ("nodeid", "test_it.py::test_op[cpu-float32-nograd-a-variants-fake.forward]"),
        ("op", "ns::op"),
        ("check", "fake.forward"),
        ("device", "cpu"),
        ("dtype", "float32"),
        ("requires_grad", False),
        ("layout", "contiguous"),
        ("sample", "a"),
        ("variant", "empty0"),
        ("outcome", "failed"),
        ("finding", "fake-stride-mismatch"),
        ("message", "some-reason: output: wrong"),
        ("fix", "return the real strides"),
        ("known", "see #12"),
        ("reason", "some-reason"),
        ("why_noted", "some words"),
        ("unjudged", True),
        ("changed", "empty along dim 0 of x"),
        ("arguments", ["x: float32[3]"]),
        ("evidence", "real (1, 3), fake (3, 1)"),
        ("picture", {"of": "output", "at": [1]}),
        ("cause", None),
        ("script", "import torch"),
        ("repro", "pytest test_it.py"),
        ("seed", 7),
        ("file", "test_it.py"),
        ("line", 12),
        ("duration", 1.5),
    ]
    assert as_schema_2(BARE)["finding"] is None


def test_a_result_names_the_one_that_it_follows_from() -> None:
    assert as_schema_2(BARE, FULL)["cause"] == {
        "nodeid": FULL.nodeid,
        "op": "ns::op",
        "check": "fake.forward",
        "variant": "empty0",
    }


def test_the_report_explains_each_finding_once() -> None:
    report = as_report({}, [FULL, replace(FULL, nodeid="b"), BARE], omitted=["shard 1 of 2"])
    assert report["findings"] == {
        "fake-stride-mismatch": {
            "meaning": "strides differ",
            "why": "compiled code reads wrong elements",
            "fix": "return the real strides",
            "before": "empty(3)",
            "after": "empty_like(x)",
            "docs": ["https://docs.pytorch.org"],
        }
    }
    assert report["omitted"] == ["shard 1 of 2"]


def test_a_finding_carries_what_the_catalogue_says_of_it() -> None:
    record = finding_record(Finding("compile-stride-assert", "wrong"), CHECKS["compile.static"])
    assert record.fix == catalogue()["compile-stride-assert"].fix
    assert "fake-stride-mismatch" in record.follows
    assert record.meaning == catalogue()["compile-stride-assert"].meaning
    strides = Finding("fake-stride-mismatch", "wrong")
    cause = finding_record(strides, CHECKS["opcheck.test_faketensor"])
    assert cause.rank < record.rank
    specific = finding_record(strides, CHECKS["fake.forward"])
    assert specific.rank < cause.rank


def test_what_no_one_explains_follows_from_nothing_and_comes_last() -> None:
    record = finding_record(Finding("own-finding", "wrong", fix="change it"), None)
    assert (record.code, record.fix, record.follows) == ("own-finding", "change it", ())
    for code in catalogue():
        assert finding_record(Finding(code, "wrong"), CHECKS["compile.static"]).rank < record.rank


def test_what_an_author_s_check_explains_may_follow_from_other_findings() -> None:
    explained = {
        "own-last": Explanation("meaning", "fix it", follows=("own-first", "fake.*")),
        "own-first": Explanation("meaning", "fix it", follows=("fake-missing",)),
    }
    check = Check("own.check", "explains", lambda case: None, findings=explained)
    first, last = (finding_record(Finding(code, ""), check) for code in ("own-first", "own-last"))
    assert first.follows == ("fake-missing",)
    assert {"own-first", "fake-missing", "fake-stride-mismatch"} <= set(last.follows)
    assert finding_record(Finding("fake-missing", ""), check).rank < first.rank < last.rank
    assert (first.fix, last.fix) == ("fix it", "fix it")


def test_what_a_check_found_is_in_its_result() -> None:
    def fails(case: object) -> None:
        raise fail("own-finding", "output is wrong", fix="change it")

    class Own:
        def pytest_customop_register_checks(self) -> list[Check]:
            return [Check("own.fails", "fails", fails)]

    (result,) = check_op(
        "aten::sin", [(tensor(3),)], checks="own", requires_grad=False, plugins=[Own()]
    )
    record = result.record("test_it.py::test_op")
    assert record.finding is not None
    assert (record.finding.code, record.finding.fix) == (result.finding, result.fix)
    assert record.place == result.place == Place("cpu", "float32", False, "contiguous", "0")


@pytest.mark.usefixtures("new_interpreters")
def test_printing_needs_neither_torch_nor_pytest() -> None:
    script = (
        "import sys\n"
        "from pytest_customop.report import causes, json_file, terminal, variants\n"
        "from pytest_customop.run.record import from_wire\n"
        "print(sorted({'torch', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
