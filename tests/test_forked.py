"""A function that runs in a fork of this process."""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop.cases import calls_in_copy
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.core import forked
from pytest_customop.core.forked import ForkedError, ForkFailed, run_forked, run_in_copy
from pytest_customop.core.openmp import loaded_runtimes, use_one_thread
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor

pytestmark = pytest.mark.skipif(not forked.AVAILABLE, reason="no fork here")


def test_messages_come_in_order_and_changes_are_lost() -> None:
    seen = []

    def work(send):
        seen.append(1)
        send(["large", "x" * 300_000])
        send(len(seen))

    outcome = run_forked(work, 30)
    assert [len(outcome.messages), outcome.messages[1], seen] == [2, 1, []]
    assert (outcome.signal, outcome.hung, outcome.died) == (None, False, False)


def test_a_crash_is_an_outcome(capfd: pytest.CaptureFixture) -> None:
    def work(send):
        send("before")
        ctypes.string_at(8)

    outcome = run_forked(work, 30)
    assert outcome.messages == ["before"]
    assert outcome.died
    assert outcome.signal == signal.SIGSEGV
    assert "in work" in outcome.output
    assert capfd.readouterr() == ("", "")


def test_many_open_files_are_no_limit() -> None:
    import resource

    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2048:
        pytest.skip("this system allows fewer open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 2048), most))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert run_forked(lambda send: send("here"), 30).messages == ["here"]
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def test_a_hang_is_an_outcome() -> None:
    start = time.monotonic()
    outcome = run_forked(lambda send: (send("before"), time.sleep(60)), 0.3)
    assert outcome.hung
    assert not outcome.died
    assert outcome.messages == ["before"]
    assert time.monotonic() - start < 20


def test_a_fork_that_leaves_a_process_behind_is_over_when_it_ends_itself() -> None:
    def work(send):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        send("done")

    start = time.monotonic()
    assert run_forked(work, 30).messages == ["done"]
    assert time.monotonic() - start < 2.5


def test_what_the_function_raises_is_raised_here() -> None:
    with pytest.raises(ForkedError, match="ZeroDivisionError"):
        run_forked(lambda send: 1 / 0, 30)


def test_no_fork_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork():
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", fork)
    files = os.listdir("/dev/fd")
    with pytest.raises(ForkFailed, match="no more processes"):
        run_forked(lambda send: None, 30)
    assert len(os.listdir("/dev/fd")) == len(files)


@pytest.mark.filterwarnings("error")
def test_torch_works_in_it_with_one_thread() -> None:
    x = torch.randn(300, 300)
    expected = x @ x

    def work(send):
        torch.set_num_threads(1)
        send(bool(torch.allclose(x @ x, expected, atol=1e-3)))

    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        assert run_forked(work, 60).messages == [True]
    finally:
        event.set()
        thread.join()


def test_without_handlers_autograd_works_after_backwards_on_fake_tensors() -> None:
    op = torch.library.custom_op("t_forked::double", mutates_args=())(double)
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad * 2)
    placement = Placement("cpu", torch.float32, True, "contiguous")
    case = Case(ops.resolve(op), Sample((tensor(3),), {}), placement)
    dict(verdicts.family("state"))["globals"](case)

    def work(send):
        x = torch.ones(3, requires_grad=True)
        op(x).sum().backward()
        send(x.grad.tolist())

    try:
        assert run_forked(work, 30, handlers=False).messages == [[2.0, 2.0, 2.0]]
    except ForkFailed as missing:
        pytest.skip(str(missing))


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_parallel_regions_of_another_library_run_in_a_copy(tmp_path: Path) -> None:
    (tmp_path / "team.cpp").write_text(_TEAM)
    build = ["g++", "-fopenmp", "-shared", "-fPIC", "-o", "team.so", "team.cpp"]
    subprocess.run(build, check=True, cwd=tmp_path)
    team = ctypes.CDLL(str(tmp_path / "team.so")).team
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # in case the library shares torch's runtime
    try:
        assert team(2) == 2
        copied = run_in_copy(lambda send: send(team(0)), 20)
    finally:
        torch.set_num_threads(before)
    assert copied is not None
    assert (copied.hung, copied.messages) == (False, [1])


def test_a_runtime_that_a_wheel_brings_is_known(tmp_path: Path) -> None:
    own = next((path for path in loaded_runtimes() if "gomp" in path), None)
    if own is None:
        pytest.skip("torch uses another OpenMP runtime here")
    folder = tmp_path / "a wheel.libs"
    folder.mkdir()
    copy = shutil.copy(own, folder / "libgomp-e985bcbb.so.1.0.0")
    runtime = ctypes.CDLL(str(copy))
    runtime.omp_set_num_threads(3)
    before = torch.get_num_threads()
    try:
        use_one_thread()
        assert runtime.omp_get_max_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_an_op_that_hangs_in_a_copy_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    @torch.library.custom_op("t_forked::waits_in_a_fork", mutates_args=())
    def waits(x: Tensor) -> Tensor:
        if os.getpid() != here:
            time.sleep(60)
        return x.clone()

    placement = Placement("cpu", torch.float32, False, "contiguous")
    case = Case(ops.resolve(waits), Sample((tensor(3),), {}), placement)
    copies = []

    def counted(work, seconds):
        copies.append(seconds)
        return run_in_copy(work, seconds)

    monkeypatch.setattr(calls_in_copy, "run_in_copy", counted)
    for _ in range(2):
        assert (
            calls_in_copy.run_calls_in_copy(case, lambda send: send(case.eager.error is None), 0.3)
            is None
        )
    assert copies == [0.3]


def double(x: Tensor) -> Tensor:
    return x * 2


_TEAM = """
#include <omp.h>

// How many threads run a parallel region; of so many, or as many as the runtime takes for 0.
extern "C" int team(int threads) {
    if (threads) omp_set_num_threads(threads);
    int running = 0;
    #pragma omp parallel reduction(+:running)
    running += 1;
    return running;
}
"""
