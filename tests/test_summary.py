"""The end of a session: one table, the distinct findings, and what was not checked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kit import ABSENT, Suite, summary_of
from snapshot import Snapshot

from pytest_customop.plan.omissions import OmittedVariants
from pytest_customop.plan.place import Place
from pytest_customop.report.colours import coloured
from pytest_customop.report.terminal import summary_lines
from pytest_customop.run.record import FindingRecord, ResultRecord


def record(nodeid: str, **fields: Any) -> ResultRecord:
    """A record that is passed unless given otherwise. `sample`, `variant` and `aspect` go to its place."""
    names = [name for name in ("sample", "variant", "aspect") if name in fields]
    place = Place(
        "cpu",
        "float32",
        False,
        "contiguous",
        **{"sample": "0", **{n: fields.pop(n) for n in names}},
    )
    known = {"op": "ns::op", "check": "fake.forward", "outcome": "passed"}
    if "finding" in fields:
        fields["finding"] = FindingRecord(fields["finding"])
    return ResultRecord(nodeid=nodeid, place=place, **{**known, **fields})


def test_a_row_an_op_and_a_column_a_family(snapshot: Snapshot) -> None:
    records = [
        record("t[a]"),
        record("t[b]", check="fake.symbolic", outcome="skipped"),
        record("t[c]", check="opcheck.test_schema", outcome="failed", finding="some-code"),
        record("t[d]", op="ns::longer_name", outcome="xfailed"),
        record("t[e]", op="ns::longer_name", outcome="error"),
        record("t[f]", op="ns::longer_name", check="body"),
        record("t[g]", op="ns::longer_name", check=None, outcome="skipped"),
    ]
    snapshot(summary_lines(records))


def test_findings_with_the_number_of_their_cases_most_frequent_first(snapshot: Snapshot) -> None:
    rare = {"outcome": "failed", "finding": "a-rare-one", "op": "ns::other"}
    often = {"outcome": "failed", "finding": "b-frequent-one"}
    records = [
        record("t[a]", **rare),
        record("t[b]", **often),
        record("t[c]", check="fake.symbolic", **often),  # the same case
        record("t[d]", sample="1", **often),
        record("t[e]", outcome="error", check="opcheck.test_schema"),
        record("t[f]", outcome="xfailed", finding="a-known-one"),
    ]
    snapshot(summary_lines(records))


def test_what_could_not_be_checked_is_listed_with_its_reason(snapshot: Snapshot) -> None:
    skipped = {"outcome": "skipped", "check": "gradcheck.backward"}
    internal = {"skip_code": "float32-internal", "message": "the op computes in it"}
    records = [
        record("t[a]", unjudged=True, **internal, **skipped),
        record("t[b]", unjudged=True, **internal, **skipped),
        record("t[c]", skip_code="nothing-to-check", message="no outputs", **skipped),
        record("t[d]", unjudged=True, outcome="skipped", check=None, message="no cuda here"),
        record("t[e]"),
    ]
    snapshot(summary_lines(records))


def test_variants_are_counted_by_what_is_known_of_them_and_not_by_messages(
    snapshot: Snapshot,
) -> None:
    message = "rejected: how to; its fake kernel accepts it"
    rejected = {"outcome": "skipped", "skip_code": "rejected"}
    records = [
        record("t[a]", variant="a", message=message),
        record("t[b]", variant="b", **rejected),
        record("t[c]", variant="c", accepted_by_fake=True, **rejected),
        record("t[d]", variant="d", outcome="skipped", without_child="how to"),
        record("t[e]", variant="e", outcome="failed", finding="some-code"),
        record("t[f]", sample="own~id", message=message),
    ]
    snapshot(summary_lines(records, [OmittedVariants("ns::op", "test_it.py", 5)]))


def test_a_note_is_a_row_a_defect(snapshot: Snapshot) -> None:
    noted = {"outcome": "noted", "finding": "some-code", "why_noted": "one dim more"}
    records = [
        record("t[a]"),
        record(
            "t[b]", variant="a", aspect="dims", variant_description="one more dim of w", **noted
        ),
        record("t[b]", variant="b", aspect="dims", variant_description="one more dim", **noted),
        record("t[b]", variant="c", aspect="dtype", variant_description="w promoted", **noted),
        record("t[d]", **{**noted, "why_noted": "rounding explains it"}),
    ]
    snapshot(summary_lines(records))


# Many families, several ops, findings on samples and variants: more than a narrow terminal has room for.
FAMILIES = ("backward", "compile", "fake", "gradcheck", "opcheck", "state", "values", "vmap")
WIDE = [
    *(
        record(f"t[{at}]", check=f"{family}.check", op=op)
        for op in ("mylib::crop", "mylib::a_longer_name")
        for at, family in enumerate(FAMILIES)
    ),
    record("t[f]", op="mylib::crop", outcome="skipped", check="vmap.loop"),
    *(
        record(
            f"t[{at}]",
            op="mylib::crop",
            outcome="failed",
            finding="output-alias-rejected",
            check=check,
            variant=f"step{at}",
            aspect="shape",
        )
        for at in range(6)
        for check in ("fake.device", "fake.forward")
    ),
]


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_the_summary_fits_the_terminal(width: int, snapshot: Snapshot) -> None:
    lines = summary_lines(WIDE, [OmittedVariants("mylib::crop", "test_it.py", 5)], width)
    printed = ["".join(part.text for part in line) for line in coloured(lines, width)]
    assert max(map(len, printed)) <= width
    snapshot(printed)


def test_the_findings_of_one_code_are_one_row_with_the_ops(snapshot: Snapshot) -> None:
    failed = {"outcome": "failed", "finding": "fake-missing"}
    records = [record(f"t{at}[a]", op=f"ns::op{at:02}", **failed) for at in range(20)]
    records += [
        record("t1[b]", op="ns::op01", sample="1", check="opcheck.test_faketensor", **failed)
    ]
    records += [record(f"e{at}[a]", op=f"ns::op{at}", outcome="error") for at in range(2)]
    near = {"variant": "empty0", "aspect": "shape", **failed, "finding": "fake-shape-mismatch"}
    records += [record(f"t{at}[v]", op=f"ns::op0{at}", **near) for at in range(3)]
    lines = summary_lines(records, width=80)
    snapshot(lines[lines.index("Findings:") :])


def test_a_row_is_not_ok_where_variants_failed() -> None:
    failed = {"outcome": "failed", "finding": "some-code", "aspect": "shape"}
    records = [record("t[a]"), record("t[v]", variant="empty0", **failed)]
    assert summary_lines(records)[:2] == ["op      fake  variants", "ns::op  1 ok  1 failed"]
    assert summary_lines(records[1:])[:2] == ["op      variants", "ns::op  1 failed"]
    rejected = record("t[v]", variant="empty0", outcome="skipped", skip_code="rejected")
    assert summary_lines([records[0], rejected])[:2] == ["op      fake", "ns::op  1 ok"]


def test_colours_are_those_of_pytest() -> None:
    records = [
        record("t[a]"),
        record("t[b]", outcome="failed", finding="a-code"),
        record("t[c]", outcome="skipped"),
        record("t[d]", outcome="noted", finding="a-note", why_noted="3 failed to say"),
    ]
    parts = [
        (part.text, *part.markup)
        for line in coloured(summary_lines(records), 80)
        for part in line
        if part.markup
    ]
    assert parts == [
        ("1 failed", "red"),
        ("1 ok", "green"),
        ("1 noted", "yellow"),
        ("1 skip", "yellow"),
        ("Findings:", "bold"),
        ("  a-code", "red"),
        ('Notes (variants="strict" in the mark makes them failures):', "bold"),
        ("  a-note", "yellow"),
    ]


def test_what_a_user_controls_does_not_control_the_terminal() -> None:
    reason = "\x1b[31m see\n#12 \u202e"
    records = [record("t[a]", outcome="xfailed", finding="a-code", known=reason)]
    printed = ["".join(part.text for part in line) for line in coloured(summary_lines(records), 80)]
    assert all(line.isprintable() for line in printed)
    assert printed[-1].endswith(r"\x1b[31m see\n#12 \u202e")


QUIET = """
@customop_cases(scale, [(tensor(3), 2)], checks=["own.passes", "own.fails", "own.skips"])
def test_scale(): ...
"""


def test_quiet_prints_the_table_and_the_findings_alone(suite: Suite, snapshot: Snapshot) -> None:
    suite.test(QUIET)
    options = ("--customop-report=report.json", "--customop-variants=quick")
    loud = "\n".join(suite.run(*options, checks=None).outlines)
    for text in ("Could not be checked:", "report: ", "Coverage ("):
        assert text in loud
    result = suite.run("-q", "--tb=no", *options, checks=None)
    assert not any(line.startswith("customop:") for line in result.outlines)
    lines = summary_of(result)
    snapshot(re.sub(r"  +(?=\S)", "  ", line) for line in lines)


def test_quiet_says_so_if_everything_was_skipped(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)])\ndef test_scale(): ...\n")
    result = suite.run("-q", f"--customop-devices={ABSENT}")
    result.stdout.fnmatch_lines(["Every customop item was skipped: nothing was checked."])


def test_the_colours_are_written(suite: Suite) -> None:
    suite.test(QUIET)
    result = suite.run("--color=yes", checks=None)
    result.stdout.fnmatch_lines(
        ["*::scale  *31m2 failed*, *32m2 ok*, *33m2 skip*", "*1mFindings:*", "*31m  own-finding*"]
    )


def test_nothing_ran_nothing_is_said() -> None:
    assert summary_lines([]) == []


def test_a_session_in_which_everything_was_skipped_says_so() -> None:
    skipped = record("t[a]", outcome="skipped", unjudged=False)
    sentence = "Every customop item was skipped: nothing was checked."
    assert sentence in summary_lines([skipped])
    assert sentence not in summary_lines([skipped, record("t[b]")])


def test_a_session_of_absent_devices_says_so(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [(tensor(3), 2)])\ndef test_scale(): ...\n")
    result = suite.run(f"--customop-devices={ABSENT}")
    result.stdout.fnmatch_lines(
        [
            f"  {suite.ns}::scale not run: device {ABSENT} is not available: *",
            "Every customop item was skipped: nothing was checked.",
        ]
    )


def test_the_summary_of_a_session(suite: Suite, snapshot: Snapshot) -> None:
    suite.test("""
@customop_cases(scale, [(tensor(3), 2)], checks=["own.passes", "own.fails"])
def test_scale(): ...

@customop_cases(plain, [(tensor(3),)], checks=["own.skips"])
def test_plain(customop_case):
    assert customop_case().shape == (3,)
""")
    lines = summary_of(suite.run(checks=None))
    # The columns are as wide as the namespace, which another run has longer or shorter.
    snapshot(re.sub(r"  +(?=\S)", "  ", line) for line in lines)


def test_a_session_without_marked_tests_has_no_summary(suite: Suite) -> None:
    suite.write("test_other.py", "def test_other(): ...\n")
    assert "= customop =" not in suite.run().stdout.str()
