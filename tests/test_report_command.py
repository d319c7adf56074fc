"""`python -m pytest_customop.report`: reports compared, and merged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import Suite, validate_report
from made_results import report, result, write
from snapshot import Snapshot

from pytest_customop.report import compare as comparing
from pytest_customop.report.__main__ import main
from pytest_customop.report.compare import compare, comparison_lines
from pytest_customop.report.merge import Merged, merge
from pytest_customop.report.merge_coverage import merged_coverage
from pytest_customop.run.record import ResultRecord
from pytest_customop.settings.values import REPORT_FORMATS

HOSTILE = "<script>alert(1)</script>\x1b[31m\n]]>\u202e"


def kinds(before: list[ResultRecord], after: list[ResultRecord]) -> list[str]:
    return sorted(change.kind for change in compare(report(before), report(after)))


def lines(before: list[ResultRecord], after: list[ResultRecord], **settings: Any) -> str:
    reports = report(before), report(after, **settings)
    return "\n".join(comparison_lines(*reports, ("old.json", "new.json"), compare(*reports)))


PASSED, SKIPPED, NOTED = result(), result("skipped"), result("noted", "a-finding")
FAILED, OTHER, ERROR = result("failed", "a-finding"), result("failed", "other"), result("error")
KNOWN, STALE = result("xfailed", "a-finding"), result("xpassed")


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (PASSED, FAILED, "broken"),
        (PASSED, ERROR, "broken"),
        (NOTED, FAILED, "broken"),
        (SKIPPED, FAILED, "broken"),
        (KNOWN, FAILED, "broken"),
        (STALE, FAILED, "broken"),
        (FAILED, OTHER, "other"),
        (ERROR, FAILED, "other"),
        (FAILED, PASSED, "mended"),
        (ERROR, NOTED, "mended"),
        (KNOWN, STALE, "mended"),
        (KNOWN, PASSED, "mended"),
        (FAILED, KNOWN, "known"),
        (PASSED, KNOWN, "known"),
        (PASSED, SKIPPED, "unchecked"),
        (FAILED, SKIPPED, "unchecked"),
        (FAILED, FAILED, "same"),
        (KNOWN, KNOWN, "same"),
        (SKIPPED, PASSED, "same"),
        (PASSED, NOTED, "same"),
    ],
)
def test_what_became_of_a_case(before: ResultRecord, after: ResultRecord, kind: str) -> None:
    assert kinds([before], [after]) == [kind]


def test_a_case_is_what_it_is_in_a_test_of_another_name() -> None:
    renamed = result("failed", "a-finding", test="test_other.py::TestOp::test_renamed")
    assert kinds([PASSED], [renamed]) == ["broken"]
    assert kinds([PASSED], [result("failed", "a-finding", sample="1")]) == ["gone", "new"]
    assert kinds([PASSED], [result("failed", "a-finding", op="ns::other")]) == ["gone", "new"]
    assert kinds([PASSED], [result("failed", "a-finding", variant="empty0")]) == ["gone", "new"]


def test_of_two_tests_with_one_case_each_is_compared_with_itself() -> None:
    first, second = (result(test=f"test_it.py::test_{name}") for name in "ab")
    second_fails = result("failed", "a-finding", test="test_it.py::test_b")
    assert kinds([first, second], [second_fails, first]) == ["broken", "same"]
    # The one that keeps its name takes its partner first, in whatever order they come.
    renamed = result("failed", "a-finding", test="test_it.py::test_c")
    assert kinds([first, second], [renamed, second]) == ["broken", "same"]
    assert kinds([first, second], [second, renamed]) == ["broken", "same"]


def test_axes_tell_cases_apart() -> None:
    def with_axis(k: int, outcome: Any) -> ResultRecord:
        return result(
            outcome, nodeid=f"test_it.py::test_op[cpu-float32-nograd-k{k}-0-fake.forward]"
        )

    before = [with_axis(1, "passed"), with_axis(2, "failed")]
    after = [with_axis(1, "passed"), with_axis(3, "failed")]
    assert kinds(before, after) == ["gone", "new", "same"]


def test_a_check_by_hand_that_ran_twice_is_two_results() -> None:
    twice = [result(nodeid="test_it.py::test_by_hand")] * 2
    then = [twice[0], result("failed", "a-finding", nodeid="test_it.py::test_by_hand")]
    assert kinds(twice, then) == ["broken", "same"]


def test_a_comparison_as_it_prints(snapshot: Snapshot) -> None:
    stays = [result(op="ns::stays", sample=str(at)) for at in range(3)]
    fails = [result("failed", "fake-stride-mismatch", op="ns::fails")]
    before = [
        *stays,
        *fails,
        *(result(op="ns::breaks", sample=str(at)) for at in range(6)),
        result("skipped", op="ns::breaks", check="fake.symbolic"),
        result("failed", "fake-dtype-mismatch", op="ns::mended"),
        result("failed", "fake-dtype-mismatch", op="ns::mended", sample="1"),
        result("failed", "fake-dtype-mismatch", op="ns::changes"),
        result(op="ns::skips"),
        result("failed", "fake-dtype-mismatch", op="ns::expected"),
        result(op="ns::gone"),
        result("failed", "fake-dtype-mismatch", op="ns::gone", check="fake.backward"),
    ]
    after = [
        *stays,
        *fails,
        *(
            result("failed", "fake-stride-mismatch", op="ns::breaks", sample=str(at))
            for at in range(6)
        ),
        result("error", op="ns::breaks", check="fake.symbolic"),
        result(op="ns::mended"),
        result("noted", "fake-dtype-mismatch", op="ns::mended", sample="1"),
        result("failed", "compile-graph-break", op="ns::changes"),
        result("skipped", op="ns::skips", skip_code="not-smooth"),
        result("xfailed", "fake-dtype-mismatch", op="ns::expected", known="see #12"),
        *(result(op="ns::new", check=check) for check in ("fake.forward", "fake.backward")),
        result("failed", "fake-stride-mismatch", op="ns::new", variant="empty0"),
    ]
    snapshot(lines(before, after, torch="2.14.0", date="2026-02-03T04:05:06+00:00"))


def test_a_comparison_of_one_report_with_itself_says_so() -> None:
    text = lines([PASSED, result("failed", "a-finding", sample="1")], [PASSED])
    assert "Gone (1 result):" in text
    text = lines([FAILED], [FAILED])
    assert text.splitlines()[-1] == "No result changed."


def test_a_long_section_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "_ROWS", 2)
    ops = [f"ns::op{at}" for at in range(5)]
    text = lines([result(op=op) for op in ops], [result("failed", "a", op=op) for op in ops])
    assert "Broken: fails now, and did not fail before (5 results):" in text
    assert text.count("1 case: cpu-float32-nograd-0") == 2
    assert "  and 3 more rows" in text


# The command


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[str], list[str]]:
    """The exit status of the command, and the lines of its two streams."""
    try:
        status = main(args)
    except SystemExit as end:
        status = int(end.code or 0)
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err.splitlines()


def test_the_exit_status_is_1_if_something_broke(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for after, status in ((FAILED, 1), (SKIPPED, 0), (PASSED, 0)):
        paths = write(old, report([PASSED])), write(new, report([after]))
        assert run(capsys, *paths)[0] == status
    assert run(capsys, write(old, report([FAILED])), write(new, report([OTHER])))[0] == 0


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["a.json"], "give the old report and the new one, not 1 file"),
        (["a.json", "b.json", "c.json"], "give the old report and the new one, not 3 files"),
        (["a.json", "nosuch.json"], "nosuch.json cannot be read: No such file or directory"),
        (["a.json", "bad.json"], "bad.json is not a JSON report"),
        (["--wrong", "a.json", "a.json"], "unrecognized arguments: --wrong"),
        (["merge", "a.json"], "the following arguments are required: -o/--output"),
        (["merge", "-o", "all.json"], "the following arguments are required: REPORT.json"),
        (
            ["merge", "a.json", "-o", "all.xml"],
            "all.xml: the ending says the format; known: .json,",
        ),
        (["merge", "a.json", "-o", "nosuch/all.json"], "there is no folder nosuch"),
        (["merge", "a.json", "bad.json", "-o", "all.json"], "bad.json is not a JSON report"),
        ([f"{HOSTILE}.json", "a.json"], r"</script>\x1b[31m\n]]>\u202e.json cannot be read"),
    ],
    ids=lambda value: (
        " ".join(value)[:30].encode("ascii", "replace").decode() if isinstance(value, list) else ""
    ),
)
def test_wrong_use_is_2_and_one_line(
    args: list[str],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.json"), report([PASSED]))
    Path("bad.json").write_text("{")
    status, out, (err,) = run(capsys, *args)
    assert (status, out) == (2, [])
    assert why in err
    assert not Path("all.json").exists()


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for args, status in ((["--help"], 0), (["merge", "--help"], 0), ([], 2)):
        actual, out, err = run(capsys, *args)
        assert (actual, err) == (status, [])
        assert out[0].startswith("usage: python -m pytest_customop.report OLD.json NEW.json")


def test_what_a_report_says_does_not_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {
        "op": HOSTILE,
        "nodeid": f"test_it.py::test_op[{HOSTILE}]",
        "repro": f"pytest {HOSTILE}",
    }
    before = report([result(check=HOSTILE, sample=HOSTILE, **hostile)])
    after = report([result("failed", HOSTILE, check=HOSTILE, sample=HOSTILE, **hostile)])
    after["environment"]["torch"] = HOSTILE
    old, new = write(tmp_path / "old.json", before), write(tmp_path / "new.json", after)
    for args in ((old, new), ("merge", old, new, "-o", str(tmp_path / "all.json"))):
        _, out, _ = run(capsys, *args)
        assert all(line.isprintable() for line in out)
        assert r"<script>alert(1)</script>\x1b[31m\n]]>\u202e" in "".join(out)


@pytest.mark.usefixtures("new_interpreters")
def test_the_command_in_a_process_of_its_own_imports_neither_torch_nor_pytest(
    tmp_path: Path,
) -> None:
    old = write(tmp_path / "old.json", report([result(op="ns::ü")]))
    new = write(tmp_path / "new.json", report([result("failed", "a", op="ns::ü\udc80")]))
    # `python -m` with a look at what it has imported.
    script = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print({'torch', 'pytest'} & set(sys.modules)))\n"
        "runpy.run_module('pytest_customop.report', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, old, new],
        capture_output=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"ns::\xfc\udc80" in done.stdout
    assert done.stdout.splitlines()[-1] == b"set()"


# Merging


def merged(*record_lists: list[ResultRecord], **settings: Any) -> Merged:
    reports = [(f"{'abc'[at]}.json", report(records)) for at, records in enumerate(record_lists)]
    reports[-1][1]["environment"] |= settings
    combined = merge(reports, ["merge"])
    validate_report(combined.report)
    return combined


def outcomes(combined: Merged) -> dict[str, str]:
    return {record["sample"]: record["outcome"] for record in combined.report["results"]}


def test_shards_become_one_report() -> None:
    combined = merged([result(sample="0")], [result("failed", "a-finding", sample="1")])
    assert outcomes(combined) == {"0": "passed", "1": "failed"}
    assert list(combined.report["findings"]) == ["a-finding"]
    assert combined.messages == []
    assert [entry["report"] for entry in combined.report["merged"]] == ["a.json", "b.json"]
    assert combined.report["environment"]["command"] == ["merge"]


def test_the_worse_of_a_result_is_kept_and_named() -> None:
    combined = merged([FAILED, result(sample="1")], [PASSED, result(sample="1")], [ERROR])
    assert outcomes(combined) == {"0": "error", "1": "passed"}
    assert combined.messages == [
        "2 results are in more than one report; 1 of them differs.",
        "  test_it.py::test_op[cpu-float32-nograd-0-fake.forward]: failed (a-finding) in a.json, "
        "passed in b.json, error in c.json; kept the result of c.json",
    ]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (SKIPPED, PASSED),
        (PASSED, NOTED),
        (NOTED, KNOWN),
        (KNOWN, STALE),
        (STALE, FAILED),
        (FAILED, ERROR),
    ],
)
def test_which_outcome_is_worse(better: ResultRecord, worse: ResultRecord) -> None:
    for pair in ((better, worse), (worse, better)):
        assert outcomes(merged(*([record] for record in pair))) == {"0": worse.outcome}


def test_the_same_report_twice_is_that_report() -> None:
    variants = [result(variant=step) for step in ("empty0", "empty1")]
    by_hand = [result(nodeid="test_it.py::test_by_hand")] * 2
    records = [PASSED, *variants, *by_hand]
    combined = merged(records, records)
    assert combined.report["results"] == merged(records).report["results"]
    assert combined.messages == ["5 results are in more than one report."]


def test_environments_that_differ_are_named() -> None:
    combined = merged([PASSED], [PASSED], torch="2.14.0", seed=3, devices=["cuda"], gpu="H200")
    assert combined.messages[:4] == [
        "torch differs: 2.13.0 (a.json), 2.14.0 (b.json)",
        "gpu differs: none (a.json), H200 (b.json)",
        "seed differs: 0 (a.json), 3 (b.json)",
        "devices differs: cpu (a.json), cuda (b.json)",
    ]
    environment = combined.report["environment"]
    assert (environment["torch"], environment["seed"]) == ("2.13.0, 2.14.0", "0, 3")
    assert (environment["devices"], environment["gpu"]) == (["cpu", "cuda"], "H200")
    assert [entry["environment"]["seed"] for entry in combined.report["merged"]] == [0, 3]


def test_a_merged_report_can_be_merged_again() -> None:
    first = merged([PASSED], [result(sample="1")], seed=3).report
    again = merge([("all.json", first), ("c.json", report([result(sample="2")]))], ["again"])
    validate_report(again.report)
    assert [entry["report"] for entry in again.report["merged"]] == ["a.json", "b.json", "c.json"]
    assert len(again.report["results"]) == 3


def test_a_device_that_only_one_machine_has_is_not_absent() -> None:
    absent = result("skipped", check=None, sample=None, device="cuda")
    there = result(device="cuda:1")
    combined = merged([PASSED, absent], [there])
    assert [record["device"] for record in combined.report["results"]] == ["cpu", "cuda:1"]
    assert combined.messages == ["1 skip left out: the device was available for another report."]
    assert len(merged([PASSED, absent], [PASSED]).report["results"]) == 2


def test_reports_merge_to_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        write(tmp_path / "a.json", report([PASSED])),
        write(tmp_path / "b.json", report([result("failed", "a-finding\ud800", sample="1")])),
    ]
    outputs = [tmp_path / f"all{ending}" for ending in REPORT_FORMATS]
    chosen = [f"-o{path}" for path in outputs]
    status, out, err = run(capsys, "merge", *paths, *chosen)
    assert (status, err) == (0, [])
    assert out == [f"{path}: 2 results of 2 reports" for path in outputs]
    for path in outputs:
        assert "a-finding" in path.read_text(encoding="utf-8")


def coverage(**more: Any) -> dict[str, Any]:
    lists = ("without_case", "without_overload", "without_gradients")
    empty = {key: [] for key in (*lists, "absent_devices", "deselected", "left_out_nothing")}
    default = {"namespace": "ns", "ops": 3, "required": False, "not_judged": None, **empty}
    return {**default, "without_device": {}, "missing": True, **more}


def test_coverage_is_what_no_report_has_reached() -> None:
    first = coverage(
        without_case=["ns::a", "ns::b"],
        without_gradients=["ns::c"],
        without_device={"cuda": ["ns::c"]},
    )
    second = coverage(
        without_case=["ns::b", "ns::c"],
        without_overload=["ns::a.out"],
        without_gradients=["ns::a"],
        without_device={"cuda": ["ns::a"]},
        required=True,
    )
    (total,) = merged_coverage([[first], [second]])
    assert total["without_case"] == ["ns::b"]
    assert total["without_overload"] == ["ns::a.out"]
    assert total["without_gradients"] == ["ns::a", "ns::c"]
    assert total["without_device"] == {"cuda": ["ns::a", "ns::c"]}
    assert (total["required"], total["missing"]) == (True, True)
    complete = coverage(missing=False)
    (total,) = merged_coverage([[first], [complete]])
    assert (total["without_case"], total["without_device"], total["missing"]) == ([], {}, False)
    (total,) = merged_coverage([[first], [coverage(not_judged="this is shard 2/2")]])
    assert (total["not_judged"], total["missing"]) == ("this is shard 2/2", False)
    assert [
        entry["namespace"] for entry in merged_coverage([[first], [coverage(namespace="a")]])
    ] == [
        "a",
        "ns",
    ]


def test_shards_of_a_suite_merge_to_what_one_session_reports(
    suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    """End to end: the command reads what sessions write, and its output is a report as well."""
    suite.test("""
@customop_cases(scale, [(tensor(3), 2), (tensor(4), 3)], checks=["own.passes", "own.fails"])
def test_scale(): ...
""")
    suite.run("--customop-report=whole.json", checks=None)
    for shard in "12":
        suite.run(f"--customop-shard={shard}/2", f"--customop-report={shard}.json", checks=None)
    capsys.readouterr()
    paths = [str(suite.path / f"{name}.json") for name in ("1", "2", "all", "whole")]
    status, out, err = run(capsys, "merge", *paths[:2], "-o", paths[2])
    assert (status, err, len(out)) == (0, [], 1)
    assert out[0].endswith(f"all.json: {len(suite.results('whole.json'))} results of 2 reports")
    validate_report(json.loads(Path(paths[2]).read_text()))
    status, out, _ = run(capsys, *paths[2:])
    assert (status, out[-1]) == (0, "No result changed.")
