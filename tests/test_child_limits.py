"""The limits of a child process and the explanation of its end, mostly without a child."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks import Check
from pytest_customop.core import forked, process_memory, watchdog
from pytest_customop.declare.inputs import Sample
from pytest_customop.declare.ops import resolve
from pytest_customop.plugin.child import (
    exit_causes,
    limits,
    process,
    protocol,
    pytest_timeout,
    starting,
)
from pytest_customop.run import engine
from pytest_customop.settings import Settings

MEMINFO = "MemTotal:       24000000 kB\nMemAvailable:   20000000 kB\n"


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def test_what_is_free_is_what_the_narrowest_of_machine_and_container_has(tmp_path: Path) -> None:
    assert process_memory.available(tmp_path) is None
    _file(tmp_path / "proc/meminfo", MEMINFO)
    assert process_memory.available(tmp_path) == 20_000_000 * 1024
    groups = tmp_path / "sys/fs/cgroup"
    _file(groups / "memory.max", "max\n")
    _file(groups / "memory.current", "7000000000\n")
    assert process_memory.available(tmp_path) == 20_000_000 * 1024
    _file(groups / "memory.max", "8000000000\n")
    assert process_memory.available(tmp_path) == 1_000_000_000
    _file(groups / "memory.stat", "anon 2000000000\nfile 5000000000\n")
    assert process_memory.available(tmp_path) == 6_000_000_000
    _file(groups / "memory/memory.limit_in_bytes", "4000000000\n")
    _file(groups / "memory/memory.usage_in_bytes", "3000000000\n")
    _file(groups / "memory/memory.stat", "cache 1\ntotal_cache 1000000000\n")
    assert process_memory.available(tmp_path) == 2_000_000_000


def test_the_memory_that_is_asked_for_counts_as_it_is() -> None:
    assert limits.memory(os.getpid(), 2.5, 4) == 2_500_000_000
    assert limits.memory(os.getpid(), 0, 1) is None


def test_without_a_number_workers_share_what_is_free() -> None:
    held = process_memory.resident(os.getpid())
    alone, shared = (limits.memory(os.getpid(), None, workers) for workers in (1, 1000))
    if held is None:  # a system without /proc
        assert alone is None
        return
    assert alone is not None
    assert shared is not None
    assert held / 2 < shared < alone


def test_times() -> None:
    assert limits.seconds(None) == limits.SECONDS
    assert limits.seconds(0) is None
    assert limits.seconds(2.5) == limits.seconds(2.5, variant_call=True) == 2.5
    assert limits.seconds(0, variant_call=True) is None
    assert watchdog.SECONDS < (limits.seconds(None, variant_call=True) or 0) < limits.SECONDS


def test_a_process_that_is_gone_holds_nothing() -> None:
    assert process_memory.resident(2**22 + 1) is None


def test_signals_have_names() -> None:
    assert exit_causes.signal_name(11) == "SIGSEGV"
    assert exit_causes.signal_name(55) == "signal 55"


def test_a_child_that_ends_before_its_descriptor_arrives_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boot = (
        "import os, sys; from multiprocessing.connection import Connection; "
        "from pytest_customop.plugin.child.protocol import Ready, Stderr; "
        "session = Connection(int(sys.argv[1])); session.recv(); "
        "session.send(Ready()); session.send(Stderr()); os._exit(3)"
    )
    monkeypatch.setattr(starting, "_BOOT", boot)
    child = process.Child(protocol.Start((), None, forks=False), os.getcwd(), quiet=True)
    with pytest.raises(exit_causes.ProcessExit, match="exit code 3") as caught:
        child.receive(60)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("phase", "where"),
    [
        (None, "in the set-up of the test"),
        ("eager", "in a plain call"),
        ("check", "under own.slow"),
    ],
)
def test_a_time_limit_that_is_passed_in_any_phase_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, phase: str | None, where: str
) -> None:
    calls = []

    def run_check(check: Check, case: Case, on_phase: Callable[[str], None], **_: bool) -> None:
        calls.append(case)
        if phase is not None:
            on_phase(phase)
        raise pytest.fail.Exception("Timeout (>1.5s) from pytest-timeout.")

    monkeypatch.setattr(engine, "run_check", run_check)
    sample = Sample((torch.ones(3),))
    case = Case(resolve("aten::sin"), sample, Placement("cpu", torch.float32, False, "contiguous"))
    check = Check("own.slow", "is slow", lambda case: None)
    session: Any = SimpleNamespace(on_phase=lambda name: None, settings=Settings())
    item: Any = None
    for _ in range(2):
        result = pytest_timeout.run_in_time(item, check, case, session)
        assert (result.finding, result.duration) == ("hang", 1.5)
        assert result.message == f"aten::sin does not end within 1.5 s {where}"
    assert len(calls) == (1 if phase == "eager" else 2)  # after a plain call that hangs, no other


STACKS = """assertion failed
Fatal Python error: Aborted

Thread 0x00007f0000000001 (most recent call first):
  File "/x/pytest_customop/child/serve.py", line 40 in _end_with

Thread 0x00007f0000000003 (most recent call first):
  File "/x/my_ops.py", line 3 in helper

Current thread 0x00007f0000000002 (most recent call first):
  File "/x/site-packages/numpy/core.py", line 1 in inner
  File "/x/my_ops.py", line 12 in kernel
  File "/x/pytest_customop/case.py", line 100 in run
  File "/x/my_conftest.py", line 5 in hook

Extension modules: numpy.core (total: 1)
"""


def test_stacks_end_where_the_plugin_calls_the_op() -> None:
    assert exit_causes.shortened(STACKS).splitlines() == [
        "assertion failed",
        "Fatal Python error: Aborted",
        "Thread 0x00007f0000000003 (most recent call first):",
        '  File "/x/my_ops.py", line 3 in helper',
        "Current thread 0x00007f0000000002 (most recent call first):",
        '  File "/x/site-packages/numpy/core.py", line 1 in inner',
        '  File "/x/my_ops.py", line 12 in kernel',
    ]


def test_long_output_is_cut_to_its_end() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert exit_causes.shortened("\n".join(lines)).splitlines() == lines[-20:]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory on Linux")
def test_growth_is_limited_in_a_copy_of_the_process() -> None:
    def work(send: forked.Send) -> None:
        process_memory.limit_growth(2**28)
        send(len(bytearray(2**20)))
        try:
            bytearray(2**30)
        except MemoryError:
            send("no more")

    assert forked.run_forked(work, 30).messages == [2**20, "no more"]
