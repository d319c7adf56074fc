"""`values.threads`: calls in several threads at once."""

import concurrent.futures
import ctypes
import itertools
import sys
import threading
from typing import Any, Callable, List

import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks.values.threads.interrupt import Interruption, Place, choose
from pytest_customop.core import forked
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckSkipped

check = verdicts.family("values")["threads"]
MATRIX = tensor(4, 3)
_numbers = itertools.count()
_space = torch.empty(4, 3)


def case_of(kernel: Callable, *args: Any, requires_grad: bool = False, **options: Any) -> Case:
    """A case of an op with this kernel of one tensor."""

    def forward(x: Tensor) -> Tensor:
        return kernel(x)

    op = torch.library.custom_op(f"t_threads::op_{next(_numbers)}", mutates_args=())(forward)
    op.register_fake(lambda x: torch.empty_like(x))
    if options:
        op.register_autograd(options["backward"])
    where = Placement("cpu", torch.float32, requires_grad, "contiguous")
    return Case(ops.resolve(op), Sample(args or (MATRIX,), {}), where)


def shared_workspace() -> Callable:
    space = torch.empty(64, dtype=torch.float64)

    def kernel(x):
        part = space[: x.numel()].view(x.shape)
        part.copy_(x)
        part += 1
        return part.to(x.dtype, copy=True)

    return kernel


def test_the_place_of_the_interruption_is_named() -> None:
    finding = verdicts.finding(check, case_of(shared_workspace()))
    assert finding.code == "thread-unsafe"
    assert "output: 12 of 12 elements differ" in finding.message
    assert f"{__file__}:" in finding.evidence
    assert "part.copy_(x)" in finding.evidence or "part += 1" in finding.evidence
    assert "those of the call that was interrupted there" in finding.evidence


def test_integers_are_other_integers_in_each_thread() -> None:
    finding = verdicts.finding(check, case_of(shared_workspace(), tensor(values=[1, 2, 3, 4])))
    assert "elements differ" in finding.message


def test_it_is_found_in_this_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_customop.checks.values.threads.AVAILABLE", False)
    before = sys.getswitchinterval(), torch.get_num_threads(), threading.active_count()
    assert verdicts.finding(check, case_of(shared_workspace())).code == "thread-unsafe"
    factors = [2]  # something that calls could change
    assert check(case_of(lambda x: x * factors[0])) is None
    after = sys.getswitchinterval(), torch.get_num_threads(), threading.active_count()
    assert after == before


def test_an_op_with_threads_of_its_own_runs_in_this_process() -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.submit(int).result()  # a fork does not have the thread
    case = case_of(lambda x: pool.submit(torch.mul, x, 2).result())
    assert case.eager.error is None
    assert check(case) is None
    pool.shutdown()


@pytest.mark.skipif(not forked.AVAILABLE, reason="no fork here")
def test_a_crash_is_a_finding() -> None:
    running: List[int] = []

    def kernel(x):
        running.append(1)
        if len(running) > 1:
            ctypes.string_at(8)
        out = x * 2
        running.pop()
        return out

    finding = verdicts.finding(check, case_of(kernel))
    assert finding.code == "thread-unsafe"
    assert "ends the process by signal 11" in finding.message
    assert f'File "{__file__}"' in finding.evidence
    assert "forked.py" not in finding.evidence


def test_a_backward_that_raises_is_a_finding() -> None:
    lock = threading.Lock()

    def backward(ctx, grad):
        if not lock.acquire(blocking=False):
            raise RuntimeError("called at once")
        try:
            return grad * 2
        finally:
            lock.release()

    case = case_of(lambda x: x * 2, requires_grad=True, backward=backward)
    finding = verdicts.finding(check, case)
    assert "raises RuntimeError: called at once" in finding.message


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x + torch.rand(()),
        lambda x: x * next(_numbers),
        lambda x: torch.mul(x, 2, out=_space),
    ],
    ids=["random", "counts", "returns its workspace"],
)
def test_what_is_not_repeatable_alone_is_not_judged(kernel: Callable) -> None:
    case = case_of(kernel)
    assert case.eager.error is None
    with pytest.raises(CheckSkipped) as caught:
        check(case)
    assert caught.value.code == "nondeterministic"
    assert not caught.value.unjudged


def test_threads_that_wait_for_each_other_are_no_finding_where_a_lock_is_held() -> None:
    lock = threading.RLock()
    space = shared_workspace()

    def kernel(x):
        with lock:
            return space(x)

    case = case_of(kernel)
    assert case.eager.error is None
    assert check(case) is None


def test_places_are_the_lines_of_the_author_and_what_returns_there() -> None:
    def work():
        values = [3, 1]
        values.sort()
        return torch.tensor(values).tolist()

    with Interruption() as interruption:
        work()
    lines = [
        (place.line - interruption.places[0].line, place.after) for place in interruption.places
    ]
    assert lines[:3] == [(0, ""), (1, ""), (1, "sort")]
    assert {(2, ""), (2, "tensor"), (2, "tolist")} <= {*lines}
    assert all(place.file == __file__ for place in interruption.places)


def test_places_are_spread_and_each_line_comes_first() -> None:
    places = [Place("f.py", line % 10) for line in range(1000)]
    assert choose(places, 16) == [*range(10)]
    assert choose(places, 4) == [0, 2, 5, 7]
    assert choose([], 4) == []


def test_an_op_that_can_keep_nothing_is_not_called() -> None:
    with pytest.raises(CheckSkipped, match="keep between calls"):
        check(case_of(lambda x: torch.empty_like(x).copy_(x) * 2))
