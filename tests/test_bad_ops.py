"""Ops that behave badly without ending the process: each has a defined result, in one process too."""

from __future__ import annotations

import pytest
from kit import DOING, Suite

OPS = (
    DOING
    + """
import sys
import threading
import time

class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__

def does_raise(error):
    def does(x):
        raise error

    return does

KEPT = []
STARTED = []

def starts_threads(x):
    STARTED.append(threading.Thread(target=time.sleep, args=(0.01,)))
    STARTED[-1].start()
"""
)

# What an op does before it returns a copy, and the findings of `fake.forward` and `state.globals`.
BAD = {
    "keeps_inputs": ("KEPT.append", set()),
    "cannot_say_why": ("does_raise(Unspeakable())", {"eager-raises"}),
    "exits": ("lambda x: sys.exit(3)", {"eager-raises"}),
    "prints_megabytes": ("lambda x: print('x' * 2_000_000)", set()),
    "starts_threads": ("starts_threads", set()),
    "changes_state": ("lambda x: torch.set_default_dtype(torch.float64)", {"global-state-changed"}),
    "reserves_8_gb": ("lambda x: torch.empty(2**33, dtype=torch.uint8)", set()),
    "reserves_too_much": ("lambda x: torch.empty(2**60)", {"eager-raises"}),
}
OTHERS = """
torch.library.define("NS::returns_its_input", "(Tensor x) -> Tensor")
torch.library.impl("NS::returns_its_input", "CPU", lambda x: x)
torch.library.register_fake("NS::returns_its_input", torch.empty_like)

@customop_cases("NS::returns_its_input", [(tensor(3),)], checks="values.aliasing")
def test_returns_its_input(): ...

def test_unmarked_after():
    assert torch.get_default_dtype() == torch.float32
"""


def _marked(name: str, does: str) -> str:
    # Where memory is filled, as state.globals has it in its turn, 8 GB are 8 GB.
    checks = ["fake.forward"] if name == "reserves_8_gb" else ["fake.forward", "state.globals"]
    return f"""
{name} = op({name!r}, {does})

@customop_cases({name}, [(tensor(3),)], checks={checks})
def test_{name}(): ...
"""


@pytest.mark.parametrize("more", [(), ("--customop-isolate",)], ids=["here", "isolated"])
def test_every_bad_op_has_its_result(suite: Suite, more: tuple[str, ...]) -> None:
    tests = "".join(_marked(name, does) for name, (does, _) in BAD.items())
    suite.test(tests + OTHERS, ops=OPS)
    result = suite.run(*more, "--customop-report=report.json", checks=None)
    codes: dict[str, set[str]] = {name: set() for name in (*BAD, "returns_its_input")}
    messages: dict[str, str] = {}
    for record in suite.results():
        name = record["op"].partition("::")[2]
        assert record["outcome"] in ("passed", "skipped", "failed"), record
        if record["outcome"] == "failed":
            codes[name].add(record["finding"])
            messages[name] = record["message"]
    assert codes == {name: findings for name, (_, findings) in BAD.items()} | {
        "returns_its_input": {"undeclared-alias"}
    }
    assert messages["exits"] == f"{suite.ns}::exits raises SystemExit: 3"
    assert messages["cannot_say_why"].endswith(
        "raises Unspeakable: <its __str__ raises RuntimeError>"
    )
    assert "test_unmarked_after" not in result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED


HANGS = """
CALLS = []

hangs = op("hangs", lambda x: (CALLS.append(x), time.sleep(1e9)))

@customop_cases(hangs, [(tensor(3),)], checks=["fake.forward", "state.globals"])
def test_hangs(): ...

def test_called_once():
    assert len(CALLS) == 1

late = op("late", lambda x: time.sleep(1e9 if len(CALLS) > 2 else 0) or CALLS.append(x))

@customop_cases(late, [(tensor(3),)], checks="values.repeat")
def test_late(): ...
"""


def test_without_a_child_pytest_timeout_makes_a_hang_a_finding(suite: Suite) -> None:
    pytest.importorskip("pytest_timeout")
    suite.test(HANGS, ops=OPS)
    options = ("--customop-timeout=3", "--customop-report=report.json")
    result = suite.run(*options, checks=None)
    result.assert_outcomes(failed=3, passed=1)
    failures = {
        (record["check"], record["finding"], record["message"]) for record in suite.results()
    }
    plain = f"{suite.ns}::hangs does not end within 3 s in a plain call"
    later = f"{suite.ns}::late does not end within 3 s under values.repeat"
    assert failures == {
        ("fake.forward", "hang", plain),
        ("state.globals", "hang", plain),
        ("values.repeat", "hang", later),
    }
    result.stdout.fnmatch_lines([f"*test_it.py*, line {suite.line_of('hangs = op')}, in *"])


INTERRUPTS = """
def interrupts(x):
    raise KeyboardInterrupt("of the op")

stops = op("stops", interrupts)

@customop_cases(stops, [(tensor(3),)], checks="fake.forward")
def test_stops(): ...

@customop_cases(op("goes_on", lambda x: None), [(tensor(3),)], checks="fake.forward")
def test_goes_on(): ...
"""


def test_keyboard_interrupt_is_ctrl_c_here_and_the_ops_own_in_a_child(suite: Suite) -> None:
    suite.test(INTERRUPTS, ops=OPS)
    here = suite.run_apart("--customop-report=report.json", checks=None)
    assert here.ret == pytest.ExitCode.INTERRUPTED
    assert [record["message"] for record in suite.results()] == ["interrupted while it ran"]
    isolated = suite.run("--customop-isolate", "--customop-report=report.json", checks=None)
    isolated.assert_outcomes(failed=1, passed=1)
    assert [record["message"] for record in suite.results() if record["outcome"] == "failed"] == [
        f"{suite.ns}::stops raises KeyboardInterrupt: of the op"
    ]
