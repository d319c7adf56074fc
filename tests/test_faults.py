"""Ops that take the process with them or never return, in a child process: each is a finding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kit import DOING, HEAD, Suite, summary_of

FAULTS = (
    DOING
    + """
import ctypes
import os
import signal
import time

def stuck(x):
    while True:
        ctypes.PyDLL(None).sleep(1000)

def busy(x):
    while True:
        pass

def greedy(x):
    kept = []
    while True:
        kept.append(torch.ones(2**24))
"""
)
EXITS = "ends the process with exit code"
KILLED = "dies of SIGKILL (which the system sends where memory runs out)"
ENDINGS = {
    "segfaults": ("lambda x: ctypes.string_at(0)", "crash", "dies of SIGSEGV"),
    "aborts": ("lambda x: os.abort()", "crash", "dies of SIGABRT"),
    "leaves": ("lambda x: os._exit(3)", "crash", f"{EXITS} 3"),
    "leaves_well": ("lambda x: os._exit(0)", "crash", f"{EXITS} 0"),
    "exits_in_c": ("lambda x: ctypes.CDLL(None).exit(4)", "crash", f"{EXITS} 4"),
    "killed": ("lambda x: os.kill(os.getpid(), signal.SIGKILL)", "crash", KILLED),
    "sleeps": ("lambda x: time.sleep(1e9)", "hang", "does not end within 3 s"),
    "loops": ("busy", "hang", "does not end within 3 s"),
    "waits_in_c": ("stuck", "hang", "does not end within 3 s"),
}
LIVES = """
lives = op("lives", lambda x: None)

@customop_cases(lives, [(tensor(3),)])
def test_lives(): ...
"""
# A check that fails in its own call of the op, and not in the plain one before it.
OF_THE_BACKWARD = """
def backward(case):
    run = case.run(case.inputs())
    torch.autograd.grad(run.outputs[0][1].sum(), run.arguments.differentiable()[0][1])

LINES = "args, kwargs = inputs()\\nop(*args, **kwargs).sum().backward()"

def pytest_customop_register_checks():
    return [
        Check("own.passes", "a check that passes", lambda case: None),
        Check("own.backward", "calls the backward", backward, gradients=True, repro=LINES),
    ]
"""
DIES_BACKWARD = """
dies = op("dies", lambda x: None)
dies.register_autograd(lambda ctx, grad: os.abort())

@customop_cases(dies, [(tensor(3),)])
def test_dies(): ...
"""


def _marked(name: str, does: str) -> str:
    return f"""
{name} = op({name!r}, {does})

@customop_cases({name}, [(tensor(3),)])
def test_{name}(): ...
"""


def _failures(suite: Suite) -> dict[str, tuple[str, str]]:
    """By op, finding and message of what failed; an op's failures say the same."""
    failures = {}
    for record in suite.results():
        if record["outcome"] == "failed":
            reported = (record["finding"], record["message"])
            assert failures.setdefault(record["op"].partition("::")[2], reported) == reported
    return failures


def test_every_end_of_the_process_is_a_finding(suite: Suite) -> None:
    tests = "".join(_marked(name, does) for name, (does, _, _) in ENDINGS.items())
    suite.test(tests + LIVES, ops=FAULTS)
    result = suite.run(
        "--customop-timeout=3", "--customop-isolate", "--customop-report=report.json"
    )
    result.assert_outcomes(failed=len(ENDINGS), passed=1)
    assert _failures(suite) == {
        name: (code, f"{suite.ns}::{name} {how} in a plain call")
        for name, (_, code, how) in ENDINGS.items()
    }
    text = result.stdout.str()
    assert text.count("Fatal Python error: Segmentation fault") == 1
    assert text.count("Fatal Python error: Aborted") == 1
    for line in ("ctypes.string_at(0)", "ctypes.PyDLL(None).sleep(1000)", "time.sleep(1e9)"):
        shown = f"line {suite.line_of(line)} in "
        assert shown in text, shown
    for inside in ("pytest_customop/", "pluggy/", "_pytest/", "During handling"):
        assert inside not in text


def test_an_op_that_takes_more_memory_than_it_may(suite: Suite) -> None:
    # The second one asks for 8 GB and touches none of it: that takes no memory.
    tests = _marked("fills", "greedy") + _marked(
        "reserves", "lambda x: torch.empty(2**33, dtype=torch.uint8)"
    )
    suite.test(tests, ops=FAULTS)
    options = ("--customop-memory=1", "--customop-isolate", "--customop-report=report.json")
    suite.run(*options).assert_outcomes(failed=1, passed=1)
    reported = f"{suite.ns}::fills takes more than 1 GB of memory in a plain call"
    assert _failures(suite) == {"fills": ("crash", reported)}


def test_under_xdist_every_worker_has_a_child_of_its_own(suite: Suite) -> None:
    tests = "".join(_marked(name, ENDINGS[name][0]) for name in ("segfaults", "leaves"))
    suite.test(tests + LIVES, ops=FAULTS)
    result = suite.run_apart("-n", "2", "--customop-isolate", "--customop-report=report.json")
    result.assert_outcomes(failed=2, passed=1)
    assert _failures(suite) == {
        name: ("crash", f"{suite.ns}::{name} {ENDINGS[name][2]} in a plain call")
        for name in ("segfaults", "leaves")
    }
    assert "crashed while running" not in result.stdout.str()


def test_after_a_deadly_plain_call_no_other_check_starts_a_child(suite: Suite) -> None:
    suite.write("starts", "")
    dies = "lambda x: (open('starts', 'a').write('x'), os.abort())"
    suite.test(_marked("dies", dies), ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json", checks="fake,state")
    failed = [record for record in suite.results() if record["outcome"] == "failed"]
    assert len(failed) > 3
    assert _failures(suite) == {
        "dies": ("crash", f"{suite.ns}::dies dies of SIGABRT in a plain call")
    }
    assert (suite.path / "starts").read_text() == "x"
    assert result.stdout.str().count("Fatal Python error") == 1
    assert result.stdout.str().count("the same finding is reported in full at") == len(failed) - 1


def test_a_backward_that_dies_fails_the_check_that_calls_it(suite: Suite) -> None:
    suite.write("conftest.py", HEAD + OF_THE_BACKWARD)
    suite.test(DIES_BACKWARD, ops=FAULTS)
    options = (
        "--customop-isolate",
        "--customop-report=report.json",
        "--customop-repro-dir=scripts",
    )
    suite.run(*options).assert_outcomes(failed=1, passed=2)
    reported = f"{suite.ns}::dies dies of SIGABRT under own.backward"
    assert _failures(suite) == {"dies": ("crash", reported)}
    (script,) = (suite.path / "scripts").iterdir()
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert ended.returncode == -6, ended.stderr


def test_a_mark_that_expects_failure_expects_a_crash_too(suite: Suite) -> None:
    source = _marked("dies", "lambda x: os.abort()").replace(
        "@customop_cases", "@pytest.mark.xfail(reason='known')\n@customop_cases"
    )
    suite.test(source, ops=FAULTS)
    result = suite.run("--customop-isolate", "-rx", "--customop-report=report.json")
    result.assert_outcomes(xfailed=1)
    assert [(record["outcome"], record["finding"]) for record in suite.results()] == [
        ("xfailed", "crash")
    ]


@pytest.mark.parametrize("at", ["set-up", "teardown"])
def test_a_crash_outside_of_the_checks_is_reported_too(suite: Suite, at: str) -> None:
    source = """
@pytest.fixture(autouse=True)
def around():
    if AT == "set-up":
        os.abort()
    yield
    os.abort()
"""
    suite.test(f"AT = {at!r}\n{source}{LIVES}", ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json")
    (record,) = suite.results()
    reported = f"{suite.ns}::lives dies of SIGABRT in the {at} of the test"
    assert (record["finding"], record["message"]) == ("crash", reported)
    assert record["outcome"] == ("failed" if at == "set-up" else "error")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_body_that_dies(suite: Suite) -> None:
    body = LIVES.replace("test_lives(): ...", "test_lives(customop_case):\n    os.abort()")
    suite.test(body, ops=FAULTS)
    suite.run("--customop-isolate", "--customop-report=report.json", checks="own,body")
    reported = {
        record["check"]: (record["outcome"], record["finding"], record["message"])
        for record in suite.results()
    }
    assert reported == {
        "body": ("failed", "crash", f"{suite.ns}::lives dies of SIGABRT in the test's own body"),
        "own.passes": ("passed", None, ""),
    }


SECOND_IMPORT = """
import os, pathlib

imports = pathlib.Path(__file__).with_name("imports")
imports.write_text(imports.read_text() + "x" if imports.exists() else "x")
if len(imports.read_text()) > 1:
    os.abort()
"""


def test_a_file_that_cannot_be_imported_in_the_child(suite: Suite) -> None:
    suite.test(SECOND_IMPORT + LIVES + LIVES.replace("lives", "breathes"), ops=FAULTS)
    suite.test(LIVES.replace("lives", "other"), name="test_other.py", ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json")
    result.assert_outcomes(failed=2, passed=1)
    reported = ("crash", "the child process dies of SIGABRT while it imports the test's file")
    assert _failures(suite) == {"lives": reported, "breathes": reported}
    assert (suite.path / "imports").read_text() == "xx"
    assert summary_of(result)


def test_a_child_that_cannot_start_is_started_once(suite: Suite) -> None:
    conftest = suite.path / "conftest.py"
    suite.write("conftest.py", SECOND_IMPORT + conftest.read_text())
    suite.test(LIVES + LIVES.replace("lives", "breathes"), ops=FAULTS)
    suite.run("--customop-isolate", "--customop-report=report.json").assert_outcomes(failed=2)
    reported = ("crash", "the child process dies of SIGABRT while it starts")
    assert _failures(suite) == {"lives": reported, "breathes": reported}
    assert (suite.path / "imports").read_text() == "xx"


REFUSES = """
import pytest

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("no workers here")
"""


def test_a_plugin_that_rejects_the_child_is_no_finding(suite: Suite) -> None:
    conftest = suite.path / "conftest.py"
    suite.write("conftest.py", conftest.read_text() + REFUSES)
    suite.test(LIVES + LIVES.replace("lives", "breathes"), ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json")
    result.assert_outcomes(failed=2)
    message = "the child process of --customop-isolate does not start: exit code 4"
    assert [
        (record["outcome"], record["finding"], record["message"]) for record in suite.results()
    ] == [("error", None, message)] * 2
    assert "no workers here" in result.stdout.str()


def test_ids_that_are_not_the_same_in_the_child(suite: Suite) -> None:
    sample = "Sample((tensor(3),), id=str(os.getpid()))"
    suite.test(LIVES.replace("(tensor(3),)", sample), ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json")
    (record,) = suite.results()
    assert record["outcome"] == "error"
    assert "ids must be the same whenever the file is collected" in record["message"]
    result.assert_outcomes(failed=1)


def test_a_file_that_only_the_child_rejects(suite: Suite) -> None:
    suite.test(SECOND_IMPORT.replace("os.abort()", "raise ValueError('twice')") + LIVES, ops=FAULTS)
    result = suite.run("--customop-isolate", "--customop-report=report.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the child process cannot collect *test_it.py", "*twice*"])
    assert [record["outcome"] for record in suite.results()] == ["error"]


# What comes after the first check dies of what it has left in the process, and of nothing in a new one.
DAMAGES = """
import ctypes
import sys

def die_if_damaged(*_):
    if hasattr(sys, "damaged"):
        ctypes.string_at(0)

def damage(case):
    sys.damaged = True

def pytest_customop_register_checks():
    return [Check("own.damages", "damages the memory", damage), *OTHERS]
"""
SUFFERS = """
OTHERS = [Check("own.suffers", "dies of damaged memory", die_if_damaged)]
"""
DIES_AT_THE_END = """
OTHERS = [Check("own.passes", "a check that passes", lambda case: None)]

def pytest_runtest_teardown(item):
    if "own.passes" in item.name:
        die_if_damaged()
"""
DIES_WHEN_CALLED = """
import ctypes, sys

lives = op("lives", lambda x: ctypes.string_at(0) and None if hasattr(sys, "damaged") else None)

@customop_cases(lives, [(tensor(3),), (tensor(4),)])
def test_lives(): ...
"""


@pytest.mark.parametrize(
    ("others", "tests"),
    [(SUFFERS, LIVES), (DIES_AT_THE_END, LIVES), ("OTHERS = []", DIES_WHEN_CALLED)],
    ids=["in the check", "in the teardown", "in a plain call"],
)
def test_an_item_that_dies_of_what_earlier_ones_did_runs_again_in_a_new_child(
    others: str, tests: str, suite: Suite
) -> None:
    suite.write("conftest.py", DAMAGES + others, head=HEAD)
    suite.test(tests, ops=FAULTS)
    result = suite.run("--customop-isolate")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*a child process dies of SIGSEGV, and a new one does not: *"])


def test_a_teardown_that_dies_in_a_new_child_too_is_reported(suite: Suite) -> None:
    always = DIES_AT_THE_END.replace("die_if_damaged()", "ctypes.string_at(0)")
    suite.write("conftest.py", DAMAGES + always, head=HEAD)
    suite.test(LIVES, ops=FAULTS)
    result = suite.run("--customop-isolate")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["crash: *lives dies of SIGSEGV in the teardown of the test"])


DIES_AFTER_VARIANTS = """
OTHERS = []

def pytest_runtest_teardown(item):
    if "variants" in item.name:
        die_if_damaged()
"""
PICKS = """
import ctypes, sys

@torch.library.custom_op("NS::pick", mutates_args=())
def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    if DIES:
        ctypes.string_at(0)
    if DAMAGES:
        sys.damaged = True
    return x.clone()

pick.register_fake(lambda x, index: torch.empty_like(x))

@customop_cases(pick, [(tensor(5, 3), torch.tensor([0, 2, 2]))])
def test_pick(): ...
"""
BEYOND, WITHIN, NEVER = "bool((index < 0).any())", "len(x) == 6", "False"


@pytest.mark.parametrize(
    ("damages", "dies", "outcomes"),
    [
        (BEYOND, NEVER, {"passed": 4, "warnings": 2}),
        (WITHIN, NEVER, {"passed": 4, "errors": 2}),
        (BEYOND, WITHIN, {"passed": 3, "failed": 1, "warnings": 1}),
    ],
    ids=["what no sample shows", "what the sample shows", "what dies is not called again"],
)
def test_only_what_the_sample_shows_makes_a_teardown_fail(
    damages: str, dies: str, outcomes: dict[str, int], suite: Suite
) -> None:
    suite.write("conftest.py", DAMAGES + DIES_AFTER_VARIANTS, head=HEAD)
    suite.test(PICKS.replace("DAMAGES", damages).replace("DIES", dies), ops=HEAD)
    result = suite.run(
        "--customop-isolate", "--customop-variants=quick", checks="fake.forward,values.repeat"
    )
    result.assert_outcomes(**outcomes)


HOARDING = """
import os, resource

most = len(os.listdir("/dev/fd")) + 150
resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

def hoard(x):
    for _ in range(9):
        os.open(os.devnull, os.O_RDONLY)

@customop_cases(op("hoards", hoard), [(tensor(3),)])
def test_hoards(): ...
"""


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no list of open files")
def test_an_op_that_opens_all_files_is_reported(suite: Suite) -> None:
    suite.test(HOARDING, ops=DOING)
    result = suite.run_apart("--customop-report=report.json", checks="values,state")
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    assert any(record["outcome"] in ("failed", "error") for record in suite.results())
