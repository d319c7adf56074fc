"""`state.leaks`: what calls leave behind."""

import gc
import itertools
import logging
import math
import sys
from typing import Any, Callable, Dict, List

import pytest
import torch
import verdicts
from torch import Tensor

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.core import heap
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor

check = verdicts.family("state")["leaks"]
_numbers = itertools.count()
on_glibc = pytest.mark.skipif(heap.heap_gauge() is None, reason="no mallinfo2")


def case(then: Callable[[Tensor], Any], backward: Any = None) -> Case:
    """A case of an op that doubles; `then` is called with the input."""

    def kernel(x: Tensor) -> Tensor:
        then(x)
        return x * 2

    op = torch.library.custom_op(f"t_call_leaks::op_{next(_numbers)}", mutates_args=())(kernel)
    op.register_fake(lambda x: torch.empty_like(x))
    if backward is not None:
        op.register_autograd(backward)
    where = Placement("cpu", torch.float32, backward is not None, "contiguous")
    op_case = Case(ops.resolve(op), Sample((tensor(40, 30),), {}), where)
    assert op_case.eager.error is None
    return op_case


@on_glibc
def test_tensors_that_are_kept_are_bytes_and_objects() -> None:
    kept: List[Tensor] = []
    finding = verdicts.finding(check, case(lambda x: kept.append(x.clone())))
    assert finding.code == "memory-leaked"
    size = int(finding.message.partition("leaves ")[2].split()[0])
    assert 4800 <= size < 6000
    assert " torch.Tensor" in finding.evidence


def test_objects_that_are_kept() -> None:
    kept: List[Any] = []
    finding = verdicts.finding(check, case(lambda x: kept.append({"shape": [*x.shape]})))
    assert "Python objects" in finding.message
    assert " dict" in finding.evidence


def test_a_backward_that_keeps_its_gradients() -> None:
    kept: List[Tensor] = []

    def backward(ctx, grad):
        kept.append(grad.clone())
        return grad * 2

    finding = verdicts.finding(check, case(lambda x: None, backward))
    assert "a call with its backward leaves" in finding.message


def _cycle(x: Tensor) -> None:
    loop: List[Any] = [x.clone()]
    loop.append(loop)


def _warns(x: Tensor) -> None:
    logging.getLogger("t_call_leaks").error("a message of %s", "x" * 300)
    print("y" * 300)


_by_shape: Dict[Any, Tensor] = {}
_last: List[Tensor] = []


def _cache(x: Tensor) -> None:
    _by_shape.setdefault(x.shape, x.clone())


def _history(x: Tensor) -> None:
    _last.append(x.clone())
    del _last[:-500]


def _new_names(x: Tensor) -> None:
    """Look attributes up by names that are made anew: CPython keeps the last ones."""
    for number in range(20):
        getattr(math, f"no_attribute_{number}", None)


@pytest.mark.parametrize("then", [_cycle, _warns, _cache, _history, _new_names, lambda x: x.sum()])
def test_what_stops_growing_is_no_leak(
    then: Callable, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture
) -> None:
    assert check(case(then)) is None


def test_the_process_is_as_it_was() -> None:
    before = gc.isenabled(), gc.get_freeze_count(), logging.root.manager.disable, sys.stdout
    assert check(case(lambda x: None)) is None
    after = gc.isenabled(), gc.get_freeze_count(), logging.root.manager.disable, sys.stdout
    assert after == before


@on_glibc
def test_the_heap_is_measured_in_bytes() -> None:
    used = heap.heap_gauge()
    before = used()
    kept = torch.empty(100_000, dtype=torch.uint8)
    assert 100_000 <= used() - before < 110_000
    del kept
    assert abs(used() - before) < 10_000


def test_names_in_the_interpreter_s_cache_are_not_counted() -> None:
    before = heap.python_objects()
    for _ in range(50):
        _new_names(torch.empty(0))
    assert heap.python_objects() - before < 10
