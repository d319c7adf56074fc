"""Under xdist: complete, whatever the distribution; a device of its own for each worker."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import torch
from kit import Suite, summary_of

from pytest_customop.run.devices import device_index, worker_devices

SUITE = """
@customop_cases(scale, [(tensor(n), 2) for n in range(1, 6)])
def test_scale(customop_case):
    assert customop_case() is not None

@customop_cases(plain, [(tensor(3),), (tensor(4),)], requires_grad=False, checks="own.fails")
def test_plain(): ...

@customop_cases(plain, [(tensor(3),)], requires_grad=False, checks="own.skips")
class TestClass:
    def test_one(self, customop_case):
        assert customop_case() is not None

def test_by_hand(customop_check):
    customop_check(plain, torch.ones(3))
"""
WAYS = {
    "load": ("-n", "2", "--dist=load"),
    "loadscope": ("-n", "2", "--dist=loadscope"),
    "worksteal": ("-n", "2", "--dist=worksteal"),
    "tx": ("--tx", "2*popen", "--dist=load"),
}


@pytest.mark.parametrize(
    "way",
    [
        "load",
        "tx",
        *(pytest.param(way, marks=pytest.mark.slow) for way in ("loadscope", "worksteal")),
    ],
)
def test_report_and_summary_are_those_of_one_process(suite: Suite, way: str) -> None:
    suite.test(SUITE)
    alone = suite.run("--customop-report=alone.json", checks="own,body")
    apart = suite.run_apart(*WAYS[way], "--customop-report=apart.json", checks="own,body")
    results = [
        [{**result, "duration": None} for result in suite.results(f"{name}.json")]
        for name in ("alone", "apart")
    ]
    assert results[0] == results[1]
    assert len(results[0]) == 25
    lines = [[line for line in summary_of(run) if line][:-1] for run in (alone, apart)]
    assert lines[0] == lines[1]
    outcomes = [run.parseoutcomes() for run in (alone, apart)]
    for counts in outcomes:
        counts.pop("deselected", None)
    assert outcomes[0] == outcomes[1]


THREADS = """
def pytest_customop_register_checks():
    def threads(case):
        import torch
        assert torch.get_num_threads() == {inside}

    return [Check("own.threads", "counts threads", threads)]
"""
UNMARKED = """
import torch

@customop_cases(plain, [(tensor(3),), (tensor(4),)], requires_grad=False, checks="own.threads")
def test_plain(): ...

def test_unmarked():
    assert torch.get_num_threads() == {outside}
"""


@pytest.mark.parametrize(
    ("workers", "environment", "inside"),
    [
        pytest.param(2, {}, 4, id="shared"),
        pytest.param(1, {}, 8, id="one worker"),
        # Torch reads this as it is imported: the processes are new ones.
        pytest.param(2, {"OMP_NUM_THREADS": "8"}, 8, id="decided", marks=pytest.mark.slow),
    ],
)
def test_a_check_takes_its_worker_s_share_of_the_threads(
    suite: Suite,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    environment: dict[str, str],
    inside: int,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    start = "import torch\nfrom pytest_customop import Check\ntorch.set_num_threads(8)\n"
    suite.write("conftest.py", start + THREADS.format(inside=inside))
    suite.test(UNMARKED.format(outside=8))
    result = suite.run_apart("-n", str(workers), checks=None)
    result.assert_outcomes(passed=3)


# Devices


class FakeDevices:
    """Three devices of a type, of which one is the current one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> None:
        self.current = 0
        self.calls: list[int] = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: self.current)
        monkeypatch.setattr(torch.cuda, "set_device", self.set)

    def set(self, index: int) -> None:
        self.calls.append(index)
        self.current = index


def test_workers_spread_evenly() -> None:
    assert [device_index(worker, 3) for worker in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert [device_index(worker, 1) for worker in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("devices", "worker", "inside"),
    [
        (["cuda"], 4, 1),
        (["cpu", "cuda"], 2, 2),
        (["cuda"], None, 0),
        (["cuda:2"], 1, 0),
        (["cpu"], 1, 0),
    ],
)
def test_a_bare_device_type_is_the_worker_s_own_device(
    monkeypatch: pytest.MonkeyPatch, devices: list[str], worker: int | None, inside: int
) -> None:
    fake = FakeDevices(monkeypatch)
    with worker_devices(devices, worker):
        assert fake.current == inside
    assert fake.current == 0


def test_the_device_is_put_back_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDevices(monkeypatch)

    def use() -> None:
        with worker_devices(["cuda"], 1):
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert fake.calls == [1, 0]


def test_one_device_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDevices(monkeypatch, count=1)
    with worker_devices(["cuda"], 1):
        pass
    assert fake.calls == []


TWO_DEVICES = """
import json, os
import torch

class Fake:
    current = 0

Fake.set = lambda index: setattr(Fake, "current", index)
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 2
torch.cuda.current_device = lambda: Fake.current
torch.cuda.set_device = Fake.set

@pytest.fixture
def note(request):
    def note(device):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        with open("noted", "a") as file:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            line = [request.node.name, worker, device, Fake.current, visible]
            file.write(json.dumps(line) + "\\n")
    return note
"""
NOTING = """
@torch.library.custom_op("NS::made", mutates_args=())
def made(n: int) -> torch.Tensor:
    return torch.ones(n)

@pytest.mark.parametrize("turn", range(8))
@customop_cases(made, [(3,)], devices=["cpu", "cuda", "cuda:0"], requires_grad=False)
def test_marked(customop_case, note, turn):
    note(customop_case.device)

@pytest.mark.parametrize("turn", range(8))
def test_device(customop_device, note, turn):
    note(customop_device)

@pytest.mark.parametrize("turn", range(8))
def test_unmarked(note, turn):
    note("none")
"""


def noted(suite: Suite) -> list[list[Any]]:
    """[test, worker, device, the current index] of every item that ran, and forget them."""
    path = suite.path / "noted"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    assert {line.pop() for line in lines} == {os.environ.get("CUDA_VISIBLE_DEVICES")}
    return lines


def test_every_worker_runs_on_its_own_device_and_ids_do_not_say_so(suite: Suite) -> None:
    suite.write("conftest.py", (suite.path / "conftest.py").read_text() + TWO_DEVICES)
    suite.test(NOTING)
    options = ("--customop-devices=cpu,cuda,cuda:0",)
    suite.run_apart(*options, checks="body").assert_outcomes(passed=56)
    alone = noted(suite)
    assert {index for *_, index in alone} == {0}
    # Each worker runs every item: which one would get an item is a matter of time.
    result = suite.run_apart("-n", "2", "--dist=each", *options, checks="body")
    result.assert_outcomes(passed=2 * 56)
    apart = noted(suite)
    assert sorted(name for name, *_ in apart) == sorted([name for name, *_ in alone] * 2)
    for name, worker, device, index in apart:
        expected = int(worker.removeprefix("gw")) if device == "cuda" else 0
        assert index == expected, (name, worker, device)
    assert {worker for _, worker, device, _ in apart if device == "cuda"} == {"gw0", "gw1"}


# The compiler's cache


@pytest.mark.slow
def test_two_workers_that_compile_the_same_at_once_share_a_cache(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor locks what it builds and writes its files whole: one folder serves all workers."""
    cache = suite.path / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    suite.test("""
@customop_cases(scale, [(tensor(3, n), 2) for n in (4, 5)])
def test_scale(): ...
""")
    alone = suite.ids(checks="compile")
    # Every worker runs every item, so both compile each graph at about the same time.
    result = suite.run_apart("--tx", "2*popen", "--dist=each", "-v", checks="compile")
    outcomes = result.parseoutcomes()
    assert outcomes.pop("warnings", 0) == 0
    assert outcomes == {"passed": 2 * len(alone)}
    kinds = {path.suffix for path in cache.rglob("*") if path.is_file()}
    assert {".py", ".so"} <= kinds
    assert ".tmp" not in kinds
