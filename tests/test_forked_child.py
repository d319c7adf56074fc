"""Children that are forked: what is imported once, and what makes a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from multiprocessing.connection import Pipe

import pytest
import torch
from kit import Suite

from pytest_customop.plugin.child import fork_safety, starting

pytestmark = pytest.mark.skipif(not starting.FORKS, reason="no child is forked here")

DIES = """
import ctypes
import threading
import time
import torch
from pathlib import Path
from pytest_customop import customop_cases, tensor

with Path(__file__).with_name("imports").open("a") as log:
    print("imported", file=log)

BEGINS

@torch.library.custom_op("NS::dies", mutates_args=())
def dies(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:
        print("what is written before the end")
        ctypes.string_at(0)
    return x.clone()

dies.register_fake(torch.empty_like)

@customop_cases(dies, [(tensor(n),) for n in (3, 5, 6, 7, 4)])
def test(): ...
"""


def _run(suite: Suite, begins: str = "") -> int:
    """Run a suite of which three samples end the child; returns how often its file was imported."""
    suite.test(DIES.replace("BEGINS", begins), ops="")
    result = suite.run("--customop-isolate", checks="fake.forward")
    result.assert_outcomes(passed=2, failed=3)
    return len((suite.path / "imports").read_text().split())


def test_after_a_death_no_file_is_imported_again(suite: Suite) -> None:
    assert _run(suite) == 2


def test_a_file_that_starts_threads_is_imported_by_each_child(suite: Suite) -> None:
    assert _run(suite, "threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()") == 5


@pytest.mark.skipif(torch.get_num_threads() == 1, reason="torch has one thread")
def test_a_file_that_computes_in_several_threads_is_imported_once(suite: Suite) -> None:
    assert _run(suite, "torch.ones(2**20).sqrt()") == 2


def test_a_number_of_threads_that_a_file_sets_stays() -> None:
    before = torch.get_num_threads()
    try:
        with fork_safety.one_thread_of_torch():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == before
        with fork_safety.one_thread_of_torch():
            torch.set_num_threads(before + 2)
        assert torch.get_num_threads() == before + 2
    finally:
        torch.set_num_threads(before)


def test_where_nothing_forks_children_they_are_new_interpreters(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = "import sys; '{module}' == 'preloaded' and sys.exit(1); "
    monkeypatch.setattr(starting, "_BOOT", ends + starting._BOOT)
    assert _run(suite) >= 2


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")
def test_a_child_of_a_real_server(suite: Suite) -> None:
    assert _run(suite) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_thread_that_has_started_since_keeps_a_process_from_being_forked() -> None:
    before = fork_safety.count_threads()
    assert not fork_safety.may_fork(before - 1)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert not fork_safety.may_fork(before)
    finally:
        end.set()
        thread.join()


def test_the_server_ends_though_a_copy_of_the_session_holds_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args: object, **keywords: object) -> None:
            super().__init__(*args, **keywords)
            started.append(self)

    monkeypatch.setattr(starting.subprocess, "Popen", Recorded)
    server = starting.ForkServer(compiler=False)
    own_end, child_end = Pipe()
    with own_end, child_end, open(os.devnull, "w") as nowhere:
        streams = starting.Streams(child_end.fileno(), nowhere.fileno(), nowhere.fileno())
        child = server.fork(os.getcwd(), streams)
        copy = os.dup(server._control.fileno())
        server.end()
        os.close(copy)
        child.close()
    assert [process.returncode for process in started] == [0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_has_called_a_driver_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = fork_safety.count_threads()
    assert fork_safety.may_fork(threads)
    with open("/dev/zero", "rb"):
        monkeypatch.setattr(fork_safety, "_DRIVERS", ("/dev/zero",))
        assert not fork_safety.may_fork(threads)
    assert fork_safety.may_fork(threads)
