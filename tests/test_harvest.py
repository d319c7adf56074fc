"""`--customop-harvest`: the calls of a suite that knows nothing of the plugin, checked at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit import HEAD, Suite

OLD = (
    HEAD
    + """
import threading, unittest, weakref

@torch.library.custom_op("NS::scale", mutates_args=())
def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n

scale.register_fake(lambda x, n: torch.empty_like(x))

def keep(ctx, inputs, output):
    ctx.n = inputs[1]

scale.register_autograd(
    lambda ctx, grad: (torch.ops.mine.back(grad, ctx.n), None), setup_context=keep
)

@torch.library.custom_op("NS::back", mutates_args=())
def back(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n

back.register_fake(lambda x, n: torch.empty_like(x))

@torch.library.custom_op("NS::turn", mutates_args=())
def turn(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()

turn.register_fake(lambda x: torch.empty(x.shape))

@torch.library.custom_op("NS::pick", mutates_args=())
def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[index]

pick.register_fake(lambda x, index: x.new_empty(index.shape[0], *x.shape[1:]))
"""
)


def write(suite: Suite, source: str, name: str = "test_old.py") -> None:
    suite.test(source, name, ops=OLD.replace("torch.ops.mine", f"torch.ops.{suite.ns}"))


def harvest(suite: Suite, *args: str, checks: str = "fake.forward", apart: bool = False) -> Any:
    """Run the suite with its namespace harvested."""
    options = (f"--customop-harvest={suite.ns}", "--customop-report=report.json", *args)
    return (suite.run_apart if apart else suite.run)(*options, checks=checks)


def outcomes_of(suite: Suite) -> dict[str, str]:
    """The outcomes in the report, by what stands in the brackets of the harvested items."""
    results = suite.results()
    assert all(record["nodeid"].startswith(f"harvest::{suite.ns}::") for record in results)
    return {
        record["nodeid"]
        .removeprefix(f"harvest::{suite.ns}::")
        .removesuffix("-fake.forward]"): record["outcome"]
        for record in results
    }


def notes(result: pytest.RunResult) -> list[str]:
    """The lines of the summary from that of the harvest on."""
    lines = result.outlines
    start = next(at for at, line in enumerate(lines) if line.startswith("harvest: "))
    end = next(at for at, line in enumerate(lines) if at > start and "===" in line)
    kept = lines[start:end]
    kept = kept[: kept.index("")] if "" in kept else kept
    return [line for line in kept if not line.startswith("report: ")]


STYLES = """
@pytest.mark.parametrize("n", [2, 3])
def test_function(n):
    assert torch.equal(scale(torch.ones(4, 3), n), torch.full((4, 3), float(n)))
    torch.ops.NS_.scale(torch.rand(4, 3), n=n)

class TestOld(unittest.TestCase):
    def test_it(self):
        x = torch.rand(3, 5)
        self.assertTrue(torch.equal(torch.ops.NS_.turn.default(x), x))

class TestPlain:
    def test_it(self):
        pick(torch.rand(5, 2), torch.tensor([4, 0, 4]))
"""


@pytest.mark.parametrize("apart", [False, True], ids=["alone", "xdist"])
def test_each_style_of_test(suite: Suite, apart: bool) -> None:
    write(suite, STYLES.replace("NS_", suite.ns))
    result = harvest(suite, *["-n", "2"] * apart, apart=apart)
    assert outcomes_of(suite) == {
        "pick[cpu-float32-nograd-5x2,3.int64": "passed",
        "scale[cpu-float32-nograd-4x3,2": "passed",
        "scale[cpu-float32-nograd-4x3,3": "passed",
        "turn[cpu-float32-nograd-3x5": "failed",
    }
    result.assert_outcomes(passed=4 + 3, failed=1)
    assert notes(result) == ["harvest: 6 calls in 4 tests, 4 signatures of 3 ops checked"]
    result.stdout.fnmatch_lines(
        [
            "seen   first in test_old.py::TestOld::test_it",
            "rerun  pytest test_old.py::TestOld::test_it --customop-harvest=* "
            "--customop-checks=fake.forward",
        ]
    )


def test_hypothesis(suite: Suite) -> None:
    pytest.importorskip("hypothesis")
    write(
        suite,
        """
from hypothesis import given, settings, strategies

@given(strategies.integers(1, 3))
@settings(max_examples=20, database=None)
def test_it(size):
    scale(torch.ones(size, 20), 2)
""",
    )
    harvest(suite)
    assert set(outcomes_of(suite)) <= {f"scale[cpu-float32-nograd-{n}x20,2" for n in (1, 2, 3)}


def test_where_calls_come_from(suite: Suite) -> None:
    write(
        suite,
        """
def test_backward():
    scale(torch.rand(2, 6, requires_grad=True), 2).square().sum().backward()

def test_thread():
    threads = [threading.Thread(target=scale, args=(torch.rand(3, 6), 2)) for _ in range(4)]
    [one.start() for one in threads], [one.join() for one in threads]

@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(backend):
    torch.compile(lambda x: scale(x, 2), fullgraph=True, backend=backend)(torch.rand(4, 6))

def test_autocast():
    with torch.autocast("cpu"):
        scale(torch.rand(5, 6), 2)

def test_no_grad():
    with torch.no_grad():
        scale(torch.rand(6, 6, requires_grad=True), 2)

@pytest.fixture
def made():
    return scale(torch.rand(7, 6), 2)

def test_fixture(made): ...
""",
    )
    harvest(suite).assert_outcomes(passed=7 + 7)
    assert sorted(outcomes_of(suite)) == [
        "back[cpu-float32-nograd-2x6,2",
        *(f"scale[cpu-float32-nograd-{n}x6,2" for n in (3, 4, 5, 6, 7)),
        "scale[cpu-float32-withgrad-2x6,2",
    ]


def test_what_is_seen_and_not_checked_is_said(suite: Suite) -> None:
    write(
        suite,
        """
class Mine(torch.Tensor): ...

def test_it():
    scale(torch.rand(2, 2).as_subclass(Mine), 2)
    scale(torch.rand(2, 2, device="meta"), 2)
    for _ in range(3):
        with pytest.raises(IndexError):
            pick(torch.rand(2, 2), torch.tensor([7]))
    pick(torch.rand(2, 2), torch.zeros(40_000, dtype=torch.int64))
""",
    )
    result = harvest(suite)
    result.assert_outcomes(passed=1)
    assert notes(result) == [
        "harvest: 7 calls in 1 test, 0 signatures of 0 ops checked",
        "Calls that were not checked:",
        f"  {suite.ns}::pick  1 call: index holds 40000 integers, 320000 bytes; at most 262144 "
        "are kept",
        f"  {suite.ns}::pick  3 calls: it raised",
        # torch.Tensor.__torch_function__ makes the call once more
        f"  {suite.ns}::scale  2 calls: it has a tensor of the type Mine",
        f"  {suite.ns}::scale  1 call: its tensors are on the device 'meta', which holds no values",
    ]


@pytest.mark.parametrize("test", ["torch.ones(3)", "torch.ops.NS_.scale"])
def test_nothing_seen_is_one_line(suite: Suite, test: str) -> None:
    write(suite, f"def test_it():\n    {test.replace('NS_', suite.ns)}\n")
    result = harvest(suite)
    assert notes(result) == [
        f"harvest: no call of an op of '{suite.ns}' was seen in 1 test (4 ops registered; calls that "
        "C++ code makes are not seen)"
    ]


def test_a_misspelt_namespace(suite: Suite) -> None:
    write(suite, "def test_it():\n    scale(torch.ones(3), 2)\n")
    result = suite.run(f"--customop-harvest={suite.ns[:-1]}")
    assert result.ret == 0
    (line,) = notes(result)
    assert "no op is registered in this namespace; did you mean" in line


def test_what_is_no_namespace_is_a_usage_error(suite: Suite) -> None:
    result = suite.run("--customop-harvest=mylib::scale")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--customop-harvest=mylib::scale: 'mylib::scale' is not a namespace*"]
    )


SAME = """
import json, gc

SEEN = []

@pytest.fixture(autouse=True)
def numbers():
    yield
    SEEN.append([torch.rand(1).item(), torch.initial_seed()])

@pytest.mark.parametrize("n", range(4))
def test_random(n):
    scale(torch.rand(3 + n, 3), 2)

class Counts(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        SEEN.append(str(func)[:20])
        return func(*args, **(kwargs or {}))

class Dispatched(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        SEEN.append(str(func))
        return func(*args, **(kwargs or {}))

@pytest.mark.parametrize("mode", [Counts, Dispatched])
def test_modes(mode):
    x = torch.rand(2, 30)
    with mode():
        scale(x, 3)

def test_profiler():
    x = torch.rand(2, 40)
    with torch.profiler.profile() as profile:
        scale(x, 3)
    SEEN.append(sorted(one.key for one in profile.key_averages()))
    scale(x, 3)

def test_tensors_die():
    x, index = torch.rand(50, 2), torch.arange(50)
    alive = [weakref.ref(x), weakref.ref(index), weakref.ref(pick(x, index))]
    del x, index
    gc.collect()
    assert [one() for one in alive] == [None] * 3

def test_graph_breaks():
    torch._dynamo.reset()
    def broken(x):
        torch._dynamo.graph_break()
        return scale(x, 2)
    count = torch._dynamo.testing.CompileCounter()
    torch.compile(broken, backend=count)(torch.rand(9, 2))
    SEEN.append([count.frame_count, count.op_count])

def test_fails():
    assert scale(torch.ones(2), 2).sum() == 5

def test_last():
    with open("seen.json", "w") as file:
        json.dump(SEEN, file)
"""


def test_the_suite_is_the_same(suite: Suite) -> None:
    write(suite, "torch.manual_seed(3)\n" + SAME)
    plain = suite.run_apart(checks=None)
    before = json.loads((suite.path / "seen.json").read_text())
    with_harvest = harvest(suite, apart=True)
    assert json.loads((suite.path / "seen.json").read_text()) == before
    outcomes = [line for line in plain.outlines if line.startswith("FAILED")]
    assert [line for line in with_harvest.outlines if line.startswith("FAILED")] == outcomes
    plain.assert_outcomes(passed=10, failed=1)
    assert "scale[cpu-float32-nograd-2x40,3" in outcomes_of(suite)


def test_values_that_matter(suite: Suite) -> None:
    write(
        suite,
        """
def test_it():
    pick(torch.full((7, 30), 2.5), torch.tensor([6, 6, 0], dtype=torch.int32))
    scale(torch.tensor([0.5, -2.0]), 2)
    scale(torch.rand(90, 4) + 3, 2)
    scale(torch.rand(4, 6).t(), 2)
    scale(torch.rand(5, 6, 7).permute(1, 2, 0), 2)
    scale(torch.ones(1).expand(3, 9), 2)
""",
    )
    suite.write(
        "conftest.py",
        HEAD
        + """
def shows(case):
    raise fail("shown", "; ".join(map(repr, case.sample.args)), "", fix="nothing")

def pytest_customop_register_checks():
    return [Check("own.shows", "shows", shows)]
""",
    )
    harvest(suite, checks="own.shows")
    shown = {record["sample"].partition(".")[0]: record["message"] for record in suite.results()}
    assert shown["7x30,3"] == (
        "tensor(7, 30, dtype=torch.float32, fill=2.5); tensor(values=[6, 6, 0], dtype=torch.int32)"
    )
    assert shown["2,2"] == "tensor(values=[0.5, -2.0], dtype=torch.float32); 2"
    assert shown["6x4"].endswith("layout='transposed'); 2")
    assert "tensor(6, 4, dtype=torch.float32, low=0." in shown["6x4"]
    assert shown["6x7x5,2"].endswith("strides=(7, 1, 42)); 2")
    assert shown["3x9,2"] == "tensor(3, 9, dtype=torch.float32, fill=1.0, strides=(0, 0)); 2"
    assert "low=3.0" in shown["90x4,2"]
    assert "high=3.9" in shown["90x4,2"] or "high=4.0" in shown["90x4,2"]


def test_marked_tests_are_not_harvested(suite: Suite) -> None:
    write(
        suite,
        """
@customop_cases("NS::scale", [(tensor(4, 3), 2)])
def test_marked(): ...

def test_inline(customop_check):
    customop_check(scale, torch.ones(2, 2), 2)
""",
    )
    result = harvest(suite)
    assert notes(result)[0].startswith("harvest: no call of an op")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["-x"], "harvest: not run: stopping after 1 failures"),
        (["--maxfail=5"], "harvest: 1 call in 2 tests, 1 signature of 1 op checked"),
    ],
)
def test_a_suite_that_stops_is_not_harvested(suite: Suite, args: list[str], line: str) -> None:
    write(suite, "def test_a():\n    turn(torch.ones(2, 3))\n\ndef test_b():\n    assert 0\n")
    result = harvest(suite, *args)
    assert result.ret == 1
    assert notes(result)[0] == line


def test_harvested_items_run_in_the_process_of_the_suite(suite: Suite) -> None:
    write(suite, "def test_a():\n    turn(torch.ones(2, 3))\n")
    harvest(suite, "--customop-isolate", apart=True).assert_outcomes(passed=1, failed=1)


def test_collect_only(suite: Suite) -> None:
    write(suite, "def test_a():\n    turn(torch.ones(2, 3))\n")
    result = harvest(suite, "--collect-only", "-q")
    assert result.ret == 0
    assert "harvest:" not in result.stdout.str()


def test_the_report_for_machines(suite: Suite) -> None:
    write(suite, "def test_a():\n    turn(torch.ones(2, 3))\n")
    harvest(suite, "--junitxml=junit.xml")
    text = (suite.path / "junit.xml").read_text(encoding="utf-8")
    assert (
        f'classname="harvest.{suite.ns}" name="turn[cpu-float32-nograd-2x3-fake.forward]"' in text
    )
    assert 'failures="1"' in text
