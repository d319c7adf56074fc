"""The baseline file in a session: recorded, held against what fails, and updated without losing a word."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from kit import HEAD, Suite

FILE = "customop-baseline.toml"
GIVEN = f"--customop-baseline={FILE}"
UPDATE = (GIVEN, "--customop-update-baseline")
SHAPE, STRIDE = "fake-shape-mismatch", "fake-stride-mismatch"

# What the fake kernels get wrong stands in the environment, so that a test can mend and break them.
OPS = (
    HEAD
    + """
import os
import time
WRONG = dict(word.split("=") for word in os.environ.get("WRONG", "").split())

def op(name):
    @torch.library.custom_op("NS::" + name, mutates_args=())
    def kernel(x: torch.Tensor) -> torch.Tensor:
        wrong = WRONG.get(name, "")
        if wrong == "exit":
            os._exit(3)
        if wrong == "sleep":
            time.sleep(100)
        return x.clone()

    @kernel.register_fake
    def _(x):
        wrong = WRONG.get(name, "")
        if wrong == "f64" and x.dtype is torch.float64:
            wrong = "stride"
        if wrong == "stride":
            return x.new_empty_strided(x.shape, (1,) * x.dim())
        return x.new_empty((*x.shape, 1)) if wrong == "shape" else torch.empty_like(x)

    return kernel

one, two = op("one"), op("two")
"""
)
TESTS = """
@customop_cases(one, [(tensor(3, 4),), Sample((tensor(2, 5),), id="wide")], requires_grad=False)
def test_one(): ...

@customop_cases(two, [(tensor(3, 4),)], dtypes=[torch.float32, torch.float64], requires_grad=False)
def test_two(): ...
"""


@pytest.fixture
def wrong(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets what is wrong, and writes the tests anew."""

    def set_wrong(defects: str, tests: str = TESTS) -> None:
        monkeypatch.setenv("WRONG", defects)
        suite.test(tests.replace("NS::", f"{suite.ns}::"), ops=OPS)

    return set_wrong


def run(suite: Suite, *args: str) -> pytest.RunResult:
    """Run the suite: in this process, unless it needs others or ends this one."""
    apart = "-n" in args or any(arg.startswith(("--customop-iso", "-x")) for arg in args)
    start = suite.run_apart if apart else suite.run
    return start("-p", "no:cacheprovider", *args, checks="fake.forward")


def text_of(suite: Suite) -> str:
    return (suite.path / FILE).read_text(encoding="utf-8").replace(suite.ns, "NS")


def entry(op: str, code: str, *lines: str, comment: str = "") -> str:
    names = f'op = "NS::{op}"\ncheck = "fake.forward"\nfinding = "{code}"\n'
    rest = "".join(f"{line}\n" for line in ('devices = ["cpu"]', *lines))
    return f'\n[[failure]]\n{names}{rest}comment = "{comment}"\n'


def entries_of(suite: Suite) -> str:
    """The text after the head."""
    return text_of(suite).partition("version = 1\n")[2]


def edit(suite: Suite, old: str, new: str) -> None:
    path = suite.path / FILE
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


ONE = entry("one", STRIDE, 'dtypes = ["float32"]')
TWO = entry("two", STRIDE)


def test_from_the_first_day_to_the_last(suite: Suite, wrong: Any) -> None:
    wrong("one=stride two=stride")
    run(suite, GIVEN).stderr.fnmatch_lines(
        [f"ERROR: {FILE}: there is no such file; --customop-update-baseline records one"]
    )

    result = run(suite, *UPDATE)
    assert result.ret == 0
    result.assert_outcomes(xfailed=4)
    result.stdout.fnmatch_lines([f"Recorded in {FILE}: 2 added, 0 kept"])
    assert entries_of(suite) == ONE + TWO

    # Green, with the reason where there is one. Nothing says that anything is to be done.
    edit(suite, 'comment = ""', 'comment = "see #12"')
    edit(suite, "version = 1", "version = 1\n# About all of them.")
    result = run(suite, GIVEN, "--customop-baseline-strict", "--customop-report=report.json")
    assert result.ret == 0
    result.assert_outcomes(xfailed=4)
    result.stdout.fnmatch_lines(["Known failures:", f"  {STRIDE}  *::one  2 cases  see #12"])
    for unwanted in ("Findings:", "Out of date", "Recorded in"):
        assert unwanted not in result.stdout.str()
    assert {record["outcome"] for record in suite.results()} == {"xfailed"}
    assert {record["known"] for record in suite.results()} == {"see #12"}

    # One is mended: told, and red if that is asked for.
    wrong("two=stride")
    result = run(suite, GIVEN)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"Out of date in {FILE} (--customop-update-baseline):",
            f"  *::one  fake.forward  {STRIDE}  no longer fails  see #12",
        ]
    )
    result = run(suite, GIVEN, "--customop-baseline-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"ERROR: customop: {FILE} has 1 entry that no longer fails (--customop-baseline-strict)"]
    )

    # The other one breaks in another way: red, and the text says what was recorded.
    wrong("one=stride two=shape")
    result = run(suite, GIVEN)
    result.assert_outcomes(failed=2, xfailed=2)
    result.stdout.fnmatch_lines(
        [f"{SHAPE}: *", f"known  {FILE} has another finding here: {STRIDE}"]
    )

    # An update keeps the comments of what stays.
    wrong("one=stride two=f64")
    result = run(suite, *UPDATE)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"Recorded in {FILE}: 1 changed, 1 kept"])
    about = "# About all of them.\n"
    narrowed = entry("two", STRIDE, 'dtypes = ["float64"]', comment="see #12")
    kept = ONE.replace('comment = ""', 'comment = "see #12"')
    assert text_of(suite).endswith(about + kept + narrowed)
    wrong("")
    result = run(suite, *UPDATE)
    result.stdout.fnmatch_lines([f"Recorded in {FILE}: 2 removed, 0 kept", "  removed * see #12"])
    assert text_of(suite).endswith(about)


def test_a_new_failure_is_red(suite: Suite, wrong: Any) -> None:
    wrong("one=stride")
    run(suite, *UPDATE)
    wrong("one=stride two=stride")
    result = run(suite, GIVEN)
    result.assert_outcomes(failed=2, xfailed=2)
    result.stdout.fnmatch_lines(["Findings:", f"  {STRIDE}  *::two  2 cases  fake.forward"])
    assert entries_of(suite) == ONE


@pytest.mark.parametrize("more", [("-n", "2"), ("--customop-isolate=on",)], ids=["xdist", "child"])
def test_other_processes_know_it_too(suite: Suite, wrong: Any, more: tuple[str, ...]) -> None:
    wrong("one=stride two=stride")
    result = run(suite, *UPDATE, *more)
    assert result.ret == 0
    assert entries_of(suite) == ONE + TWO
    wrong("two=stride")
    result = run(suite, GIVEN, *more)
    result.assert_outcomes(xfailed=2, passed=2)
    result.stdout.fnmatch_lines([f"  *::one  fake.forward  {STRIDE}  no longer fails"])


def test_shards_record_what_the_whole_records(suite: Suite, wrong: Any) -> None:
    wrong("one=stride two=stride")
    for index in (1, 2, 3):
        result = run(suite, *UPDATE, f"--customop-shard={index}/3")
        assert result.ret == 0
    assert entries_of(suite) == ONE + TWO
    # Each takes out what it saw mended, and nothing else.
    wrong("one=stride two=f64")
    for index in (1, 2, 3):
        result = run(suite, *UPDATE, f"--customop-shard={index}/3")
        assert "no test has" not in result.stdout.str()
        assert ONE in entries_of(suite)
    assert entries_of(suite) == ONE + entry("two", STRIDE, 'dtypes = ["float64"]')


@pytest.mark.parametrize(
    "selection", [["-k", "test_two"], ["test_it.py::test_two"], ["--deselect=test_it.py::test_one"]]
)
def test_what_did_not_run_stays(suite: Suite, wrong: Any, selection: list[str]) -> None:
    wrong("one=stride two=stride")
    run(suite, *UPDATE)
    wrong("")
    result = run(suite, GIVEN, *selection)
    stale = [line for line in result.outlines if "no longer fails" in line]
    assert len(stale) == 1
    assert "::two" in stale[0]
    assert "no test has" not in result.stdout.str()
    run(suite, *UPDATE, *selection)
    assert entries_of(suite) == ONE


def test_a_part_of_a_cell_that_did_not_run_keeps_its_entry(suite: Suite, wrong: Any) -> None:
    two_samples = """
@customop_cases(one, [(tensor(3, 4),), (tensor(2, 5),)], requires_grad=False)
def test_one(): ...
"""
    wrong("one=stride", two_samples)
    run(suite, *UPDATE)
    wrong("", two_samples)
    run(suite, *UPDATE, "-k", "nograd-1")
    assert entries_of(suite) == ONE
    run(suite, *UPDATE, "--customop-max-samples=1")
    assert entries_of(suite) == ONE
    run(suite, *UPDATE)
    assert entries_of(suite) == ""


def test_renaming_a_test_loses_nothing(suite: Suite, wrong: Any) -> None:
    wrong("one=stride")
    run(suite, *UPDATE)
    wrong("one=stride", TESTS.replace("test_one", "test_other").replace("(tensor(3, 4),), S", "S"))
    result = run(suite, GIVEN, "--customop-baseline-strict")
    assert result.ret == 0
    result.assert_outcomes(xfailed=1, passed=2)


def test_entries_that_match_nothing_are_listed(suite: Suite, wrong: Any) -> None:
    wrong("one=stride two=stride")
    run(suite, *UPDATE)
    edit(suite, "::one", "::gone")
    edit(suite, 'comment = ""', 'comment = "see #12"')
    wrong("two=stride")
    result = run(suite, GIVEN, "--customop-baseline-strict")
    assert result.ret == 0
    listed = [f"  *::gone  fake.forward  {STRIDE}  no test has such a case  see #12"]
    result.stdout.fnmatch_lines(listed)
    run(suite, *UPDATE).stdout.fnmatch_lines(listed)
    assert "::gone" in entries_of(suite)
    for part in (["-k", "two"], ["test_it.py"], ["--lf"], ["--customop-shard=1/2"]):
        result = suite.run(GIVEN, *part, checks="fake.forward")
        assert "no test has" not in result.stdout.str(), part


def test_variants(suite: Suite, wrong: Any) -> None:
    keeps = """
@torch.library.custom_op("NS::keeps", mutates_args=())
def keeps(x: torch.Tensor, keep: int) -> torch.Tensor:
    return x[:, :keep].clone(memory_format=torch.contiguous_format)

keeps.register_fake(lambda x, keep: x.new_empty(x.shape[0], keep if WRONG else min(keep, x.shape[1])))

@customop_cases(keeps, [(tensor(5, 4), 2)], requires_grad=False, variants="shape")
def test_keeps(): ...
"""
    quick = "--customop-variants=quick"
    wrong("keeps=yes", keeps)
    result = run(suite, *UPDATE, quick)
    assert result.ret == 0
    expected = entry("keeps", SHAPE, 'dtypes = ["float32"]', 'variants = ["empty1", "one1"]')
    assert entries_of(suite) == expected
    result = run(suite, GIVEN, quick, "--customop-baseline-strict")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"  {SHAPE}  *::keeps  2 cases  recorded in {FILE}"])
    wrong("", keeps)
    assert run(suite, GIVEN, "--customop-baseline-strict").ret == 0  # without variants
    assert run(suite, GIVEN, "--customop-variant=one1").ret == 0
    result = run(suite, GIVEN, quick)
    result.stdout.fnmatch_lines([f"  *::keeps  fake.forward  {SHAPE}  no longer fails"])


def test_crashes_and_hangs(suite: Suite, wrong: Any) -> None:
    isolated = ("--customop-isolate", "--customop-timeout=4")
    wrong("one=exit two=sleep", TESTS.replace(", torch.float64", ""))
    result = run(suite, *UPDATE, *isolated)
    assert result.ret == 0
    entries = [
        entry("one", "crash", 'dtypes = ["float32"]'),
        entry("two", "hang", 'dtypes = ["float32"]'),
    ]
    assert entries_of(suite) == "".join(entries)
    result = run(suite, GIVEN, *isolated)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["Known failures:", "  crash  *::one *", "  hang   *::two *"])


BY_HAND = """
def test_by_hand(customop_check):
    customop_check(one, torch.ones(3, 4))
    customop_check(two, torch.ones(3, 4))
    print("both were checked")
"""


def test_checks_by_hand(suite: Suite, wrong: Any) -> None:
    wrong("one=stride two=stride", BY_HAND)
    assert run(suite, *UPDATE).ret == 0
    lines = 'dtypes = ["float32"]'
    assert entries_of(suite) == entry("one", STRIDE, lines) + entry("two", STRIDE, lines)
    result = run(suite, GIVEN, "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*both were checked*", "Known failures:"])
    wrong("one=stride two=shape", BY_HAND)
    result = run(suite, GIVEN)
    result.assert_outcomes(failed=1)
    reported = [f"*{SHAPE}: *", f"*known  {FILE} has another finding here: {STRIDE}"]
    result.stdout.fnmatch_lines(reported)
    result.stdout.fnmatch_lines([f"  *::two  fake.forward  {STRIDE}  has another finding now"])


CALLS = """
def test_small(): one(torch.ones(3, 4))

@pytest.mark.slow
def test_wide(): one(torch.ones(2, 5).expand(2, 5))
"""


@pytest.mark.parametrize("kind", ["harvest", "customop_check"])
def test_calls_of_tests_that_did_not_run(suite: Suite, wrong: Any, kind: str) -> None:
    inline = CALLS.replace("():", "(customop_check):").replace("one(", "customop_check(one, ")
    harvest = [f"--customop-harvest={suite.ns}"] if kind == "harvest" else []
    tests = CALLS if harvest else inline
    suite.write("pytest.ini", "[pytest]\nmarkers = slow\n")
    wrong("one=stride", tests)
    assert run(suite, *UPDATE, *harvest).ret == 0
    assert entries_of(suite) == ONE
    assert run(suite, GIVEN, *harvest, "--customop-baseline-strict").ret == 0
    wrong("", tests)
    undecided = f"1 more entry of {FILE} did not fail in these tests; run all tests to decide."
    for part in (["-k", "small"], ["-m", "not slow"], ["test_it.py"]):
        result = run(suite, *UPDATE, *harvest, *part)
        result.stdout.fnmatch_lines([undecided])
        assert entries_of(suite) == ONE
    # What the ini file leaves out of every run is not missed.
    suite.write("pytest.ini", "[pytest]\nmarkers = slow\naddopts = -m 'not slow'\n")
    result = run(suite, GIVEN, *harvest, "-k", "small")
    result.stdout.fnmatch_lines([undecided])
    run(suite, *UPDATE, *harvest)
    assert entries_of(suite) == ""


def test_what_other_marks_expect_is_not_recorded(suite: Suite, wrong: Any) -> None:
    tests = """
from pytest_customop import Known

@customop_cases(one, [(tensor(3, 4),)], known=[Known(finding="fake-stride-mismatch", reason="#1")])
def test_one(): ...

@pytest.mark.xfail
@customop_cases(two, [(tensor(3, 4),)])
def test_two(): ...
"""
    wrong("one=stride two=stride", tests)
    result = run(suite, *UPDATE)
    result.assert_outcomes(xfailed=2)
    assert entries_of(suite) == ""


def test_what_is_no_finding_is_not_recorded(suite: Suite, wrong: Any) -> None:
    wrong("", "@customop_cases(one, [(tensor(3),)])\ndef test(customop_case):\n    assert 0\n")
    result = suite.run_apart(*UPDATE, checks="fake.forward,body")
    result.assert_outcomes(failed=1, passed=1)
    assert entries_of(suite) == ""


INTERRUPTED = """
@customop_cases(one, [(tensor(3, 4),), (tensor(2, 5),)], requires_grad=False)
def test_one(): ...

def test_stops(): raise KeyboardInterrupt

@customop_cases(two, [(tensor(3, 4),)], dtypes=[torch.float32, torch.float64], requires_grad=False)
def test_two(): ...
"""


@pytest.mark.parametrize(
    "how", ["raise KeyboardInterrupt", "assert 0"], ids=["ctrl-c", "exitfirst"]
)
def test_a_session_that_is_cut_short_records_what_ran(suite: Suite, wrong: Any, how: str) -> None:
    tests = INTERRUPTED.replace("raise KeyboardInterrupt", how)
    wrong("one=stride two=stride", tests.replace(how, "..."))
    run(suite, *UPDATE)
    assert entries_of(suite) == ONE + TWO
    edit(suite, "::one", "::zero")
    wrong("one=stride two=", tests)
    result = run(suite, *UPDATE, "-x")
    assert result.ret == (2 if "raise" in how else 1)
    result.stdout.fnmatch_lines([f"Recorded in {FILE}: 1 added, 2 kept"])
    # test_two did not run; what the file has of it stays.
    assert entries_of(suite) == ONE + ONE.replace("one", "zero") + TWO


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_ctrl_c_leaves_a_whole_file(suite: Suite, wrong: Any, workers: tuple[str, ...]) -> None:
    wrong("one=stride two=stride")
    run(suite, *UPDATE)
    tests = INTERRUPTED.replace("raise KeyboardInterrupt", "open('begun', 'w'); time.sleep(60)")
    wrong("two=sleep", tests.replace("test_two", "test_zwo"))
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *UPDATE, *workers]
    started = subprocess.Popen(
        [*command, "--customop-checks=fake.forward", "--customop-variants=off"],
        cwd=suite.path,
        stdout=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 120
    while not (suite.path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(started.pid, signal.SIGINT)
    out, _ = started.communicate(timeout=60)
    assert started.returncode == 2, out
    # What ran alone is known to be mended; workers cannot say what they have left out.
    assert entries_of(suite) in (TWO, ONE + TWO), out
    assert TWO in entries_of(suite)
    assert [path.name for path in suite.path.glob(f".{FILE}*")] == []


def test_a_full_disk(suite: Suite, wrong: Any) -> None:
    wrong("one=stride")
    run(suite, *UPDATE)
    before = text_of(suite)
    wrong("two=stride")
    suite.write(
        "conftest.py",
        """
import errno, os, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync = full
""",
    )
    result = suite.run_apart(*UPDATE, checks="fake.forward")
    assert result.ret == 1
    errors = [line for line in result.outlines if line.startswith("ERROR")]
    assert errors == [f"ERROR: customop: {FILE} was not written: {os.strerror(errno.ENOSPC)}"]
    assert "Recorded in" not in result.stdout.str()
    assert text_of(suite) == before
    assert [*suite.path.glob(f".{FILE}*")] == []


WRONG_FILES = {
    "version = 1\n[[failure": f"{FILE}:2: is not TOML: ",
    "version = 2\n": f"{FILE}: has version 2, written by a newer pytest-customop; this one reads 1",
    "": f"{FILE}: has no version: it is not a baseline of pytest-customop",
    "version = 1\n\n[[failure]]\nops = 1\n": f"{FILE}:4: has an unknown key 'ops'; did you mean 'op'?",
}


@pytest.mark.parametrize("more", [(), ("--customop-update-baseline",), ("-n", "2")])
@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_wrong_file_is_one_error(suite: Suite, text: str, more: tuple[str, ...]) -> None:
    path = suite.write(FILE, text)
    result = suite.run(GIVEN, *more)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in (*result.errlines, *result.outlines) if "ERROR" in line]
    assert len(errors) == 1
    assert WRONG_FILES[text] in errors[0]
    assert path.read_text() == text


def test_what_cannot_be_read_or_written(suite: Suite) -> None:
    path = suite.path / FILE
    path.mkdir()
    result = suite.run(GIVEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {FILE}: cannot be read: Is a directory"])
    result = suite.run("--customop-baseline=nosuch/b.toml", "--customop-update-baseline")
    result.stderr.fnmatch_lines(["ERROR: nosuch/b.toml: cannot be written: No such file*"])
    path.rmdir()
    path.write_bytes(b"version = 1\n# \xff\n")
    suite.run(GIVEN).stderr.fnmatch_lines([f"ERROR: {FILE}:2: is not UTF-8 text"])


@pytest.mark.parametrize("flag", ["update-baseline", "baseline-strict"])
def test_a_flag_without_a_file(suite: Suite, flag: str) -> None:
    suite.run(f"--customop-{flag}").stderr.fnmatch_lines(
        [f"ERROR: --customop-{flag}: of which file? give --customop-baseline=PATH"]
    )


def test_the_path_of_an_ini_file_is_relative_to_it(
    suite: Suite, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write("pytest.ini", f"[pytest]\ncustomop_baseline = {FILE}\n")
    wrong("one=stride")
    assert run(suite, "--customop-update-baseline").ret == 0
    below = suite.path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    result = run(suite, "..", "--customop-baseline-strict")
    result.assert_outcomes(xfailed=2, passed=2)
    result.stdout.fnmatch_lines([f"* recorded in ../{FILE}"])


def test_collecting_records_nothing(suite: Suite, wrong: Any) -> None:
    wrong("one=stride")
    run(suite, *UPDATE, "--collect-only")
    assert not (suite.path / FILE).exists()
    assert run(suite, *UPDATE, "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert entries_of(suite) == ""
