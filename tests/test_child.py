"""--customop-isolate: the same results as in one process, and nothing is left of the child."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kit import Suite
from test_options import assert_usage_error

CASES = """
import os
import random
import warnings
from pathlib import Path

LOG = Path(__file__).with_name("log")

def note(word):
    with LOG.open("a") as log:
        print(word, file=log)

@pytest.fixture(scope="session")
def of_the_session():
    note("session")
    yield
    note("session ends")

@pytest.fixture(scope="module")
def of_the_module(of_the_session):
    note("module")
    yield
    note("module ends")

@customop_cases(
    scale, [(tensor(3), 2), (tensor(4), 3)], requires_grad=False, checks=["own", "own.fails"]
)
@pytest.mark.parametrize("word", ["a", "b"])
def test_scale(customop_case, of_the_module, word):
    print("printed by", word)
    assert customop_case().shape != (4,), word

def test_unmarked(of_the_module):
    pass

@customop_cases(plain, [(tensor(3),)], checks=["own", "own.skips", "own.breaks"])
class TestClass:
    def test_method(self, customop_case, tmp_path):
        assert not list(tmp_path.iterdir())
        warnings.warn("a warning of the body", UserWarning)
        pytest.skip("no time")

    def test_unmarked(self):
        pass

@pytest.mark.xfail(reason="known", strict=True)
@customop_cases(plain, [(tensor(5),)], checks=["own", "own.fails"])
def test_expected(): ...

def test_by_hand(customop_check):
    with pytest.raises(AssertionError, match="2 checks failed"):
        customop_check(plain, torch.ones(3))
"""


def _output(result: pytest.RunResult) -> list[str]:
    """What a session prints, without the option and the times."""
    lines = [re.sub(r" in \d+\.\d+s.*|0x[0-9a-f]+", "", line) for line in result.outlines]
    return [line.replace(" --customop-isolate=on", "").strip("= ") for line in lines]


def _records(suite: Suite) -> list[dict[str, Any]]:
    records = suite.results()
    for record in records:
        del record["duration"]
        record["repro"] = record["repro"].replace(" --customop-isolate=on", "")
    return records


def test_everything_is_as_in_one_process(suite: Suite) -> None:
    suite.test(CASES)
    options = ("-v", "-rA", "--customop-report=report.json", "-p", "no:cacheprovider")
    ran = []
    for more in ((), ("--customop-isolate",)):
        # In a process of its own: in this one, warnings are errors.
        result = suite.run_apart(*options, *more, checks="own,own.fails,own.skips,own.breaks,body")
        ran.append((_output(result), _records(suite), (suite.path / "log").read_text().split()))
        (suite.path / "log").unlink()
    (output, records, log), (output_isolated, isolated, log_isolated) = ran
    assert isolated == records
    assert output_isolated == output
    assert {record["outcome"] for record in records} == {
        "passed",
        "failed",
        "error",
        "skipped",
        "xfailed",
        "xpassed",
    }
    # The unmarked test has fixtures of its own here; the bodies share one set in the child.
    assert sorted(log_isolated) == sorted(log * 2)


def test_selections_stops_and_reruns(suite: Suite) -> None:
    suite.test(CASES)
    checks = "own,own.fails,own.skips,own.breaks,body"
    suite.run("--customop-isolate", "-k", "plain or method", checks=checks)
    first = suite.run("--customop-isolate", "-x", "-k", "scale", checks=checks)
    first.assert_outcomes(failed=1)
    again = suite.run("--customop-isolate", "--lf", "-k", "scale", checks=checks)
    again.assert_outcomes(failed=1)


def test_random_numbers_and_order_are_those_of_the_seed(suite: Suite) -> None:
    pytest.importorskip("pytest_randomly")
    body = """
@customop_cases(plain, [(tensor(3),), (tensor(4),)])
def test_draws(customop_case):
    with open("drawn", "a") as drawn:
        print(customop_case.sample_id, random.random(), file=drawn)
"""
    suite.test("import random\n" + body)
    drawn = []
    for more in ((), ("--customop-isolate",)):
        options = ("-p", "randomly", "--randomly-seed=7")
        suite.run(*options, *more, checks="own,body").assert_outcomes(passed=4)
        drawn.append((suite.path / "drawn").read_text())
        (suite.path / "drawn").unlink()
    assert drawn[0] == drawn[1]


def test_the_bundled_ops_from_another_folder(suite: Suite) -> None:
    options = ("--pyargs", "reference_ops.test_sin")
    ids = []
    for more in ((), ("--customop-isolate",)):
        result = suite.run(
            "-v", "-p", "no:cacheprovider", *options, *more, checks="fake.forward,body"
        )
        ids.append([line for line in result.outlines if "PASSED" in line])
    assert ids[0]
    assert ids[0] == ids[1]


def test_a_child_starts_where_every_warning_is_an_error(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    suite.test('\n\n@customop_cases("NS::plain", [(tensor(3),)])\ndef test(): ...\n')
    suite.run_apart("--customop-isolate", checks="fake.forward").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_coverage_of_what_the_child_ran(suite: Suite, workers: tuple[str, ...]) -> None:
    suite.write("kernels.py", "def twice(x):\n    y = x * 2\n    return y\n")
    suite.test(
        """
import kernels

@torch.library.custom_op("NS::covered", mutates_args=())
def covered(x: torch.Tensor) -> torch.Tensor:
    return kernels.twice(x)

covered.register_fake(lambda x: torch.empty_like(x))

@customop_cases(covered, [(tensor(3),)])
def test(): ...
"""
    )
    options = ("--customop-isolate", "--cov=kernels", "--cov-report=term", *workers)
    result = suite.run_apart(*options, checks="fake.forward")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"kernels\.py +3 +0 +100%"])


def test_output_of_a_child_is_seen_without_capture(suite: Suite) -> None:
    body = "\n\n@customop_cases(plain, [(tensor(3),)])\ndef test_says(customop_case):\n    print('aloud')\n"
    suite.test(body)
    result = suite.run_apart("--customop-isolate", "-s", checks="body")
    result.assert_outcomes(passed=1)
    assert "aloud" in result.stdout.str()
    assert "aloud" not in suite.run_apart("--customop-isolate", checks="body").stdout.str()


def test_a_warning_that_cannot_be_sent_arrives_as_its_base(suite: Suite) -> None:
    suite.test("""
import warnings

@customop_cases(plain, [(tensor(3),)])
def test_warns(customop_case):
    class Local(FutureWarning): ...
    warnings.warn("of this test alone", Local)
""")
    result = suite.run_apart("--customop-isolate", checks="body")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*FutureWarning: of this test alone"])


@pytest.mark.parametrize("how", ["pytest.exit('enough')", "raise KeyboardInterrupt"])
def test_a_body_may_end_the_session(suite: Suite, how: str) -> None:
    body = f"""
@customop_cases(plain, [(tensor(3),), (tensor(4),)])
def test_ends(customop_case):
    {how}
"""
    suite.test(body)
    result = suite.run_apart("--customop-isolate", "--customop-report=report.json", checks="body")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert [record["message"] for record in suite.results()] == ["interrupted while it ran"]


def test_the_debugger_needs_one_process(suite: Suite) -> None:
    suite.test(CASES)
    assert_usage_error(suite.run("--customop-isolate", "--pdb"), "--pdb needs the process")


HANGS = """
import time

@torch.library.custom_op("NS::hangs", mutates_args=())
def hangs(x: torch.Tensor) -> torch.Tensor:
    with open("begun", "w") as begun:
        print(os.getpid(), file=begun)
    time.sleep(1e9)

@customop_cases(plain, [(tensor(3),)])
def test_first(): ...

@customop_cases(hangs, [(tensor(3),)])
def test_hangs(): ...
"""


def _start(suite: Suite) -> tuple[subprocess.Popen[bytes], int]:
    """A session that hangs in its child; the process id of that."""
    suite.test("import os\n" + HANGS)
    folder = suite.path / "temporary"
    folder.mkdir()
    options = ["--customop-isolate", "--customop-checks=own", "--customop-report=report.json"]
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", *options],
        cwd=suite.path,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    begun = suite.path / "begun"
    while not (begun.exists() and begun.read_text().endswith("\n")):
        assert session.poll() is None
        time.sleep(0.05)
    return session, int(begun.read_text())


def _wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that is no child of this one."""
    end = time.monotonic() + 120
    while Path(f"/proc/{pid}").exists() and "Z (" not in _state(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.05)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "Z ("


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")


@linux
def test_ctrl_c_ends_the_session_and_its_child_and_leaves_a_report(suite: Suite) -> None:
    session, child = _start(suite)
    os.killpg(session.pid, signal.SIGINT)
    output, _ = session.communicate(timeout=300)
    assert session.returncode == pytest.ExitCode.INTERRUPTED, output
    _wait_until_gone(child)
    assert [(record["outcome"], record["message"]) for record in suite.results()] == [
        ("passed", ""),
        ("error", "interrupted while it ran"),
    ]
    left = [path for path in (suite.path / "temporary").rglob("*") if "pytest-of" not in str(path)]
    assert left == []


@linux
def test_the_child_ends_when_its_session_is_killed(suite: Suite) -> None:
    session, child = _start(suite)
    session.kill()
    session.communicate()
    _wait_until_gone(child)


@linux
def test_ctrl_c_is_not_for_the_child(suite: Suite) -> None:
    session, child = _start(suite)
    os.kill(child, signal.SIGINT)
    time.sleep(0.5)
    assert "Z (" not in _state(child)
    session.kill()
    session.communicate()
    _wait_until_gone(child)


@linux
def test_nothing_is_left_of_a_child(suite: Suite) -> None:
    body = """
import os, subprocess, threading, time

@customop_cases(plain, [(tensor(3),)])
def test_leaves(customop_case):
    threading.Thread(target=time.sleep, args=(1e9,)).start()
    helper = subprocess.Popen(["sleep", "1000"])
    with open("pids", "w") as pids:
        print(os.getpid(), helper.pid, file=pids)
"""
    suite.test(body)
    suite.run("--customop-isolate", checks="body").assert_outcomes(passed=1)
    for pid in (suite.path / "pids").read_text().split():
        _wait_until_gone(int(pid))
