"""`relations.thread_count`: one thread and several give the same."""

from __future__ import annotations

import contextlib
import math
import time

import torch

from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.code_names import names_in_code
from ...cases.crash_risk import crash_risk, may_crash
from ...core.torch_threads import torch_threads
from ...core.tracebacks import error_line
from ...declare.ops import Op
from ...findings import CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied,
    skip_if_incomparable,
)
from ..values.memory.perturb import ROUNDINGS
from .compare import disagreement, everything, is_unsteady
from .scripts import call_lines, compare_lines

_SEVERAL = 4
_MOVES = 3
_CALLS = 20  # threads write to one element at the same time in some calls only
_BUSY = 0.01  # seconds of work, a multiple of the time that a thread takes to start
_TIMES = 16
_ELEMENTS = 2**24  # of all tensors in the larger case
_DIVIDING = frozenset({"get_num_threads", "ThreadPoolExecutor", "ThreadPool", "Thread"})


def check_thread_count(case: Case) -> None:
    """Call the op with one thread of torch and with several.

    Several are four. A sample of a native op runs in this process with the number that torch has now: the
    op may have divided its own memory among the threads that it saw first.
    """
    skip_if_incomparable(case)
    is_safe = case.variant is not None or not may_crash(case)
    several = _SEVERAL if is_safe else torch.get_num_threads()
    if several == 1:
        raise skip("nothing-to-check", "torch has one thread here", unjudged=False)
    seconds = _compare(case, several)
    busy = _with_more_work(case, seconds) if case.kind == "large" else None
    if busy is not None:
        with contextlib.suppress(CheckSkipped):  # the case itself was compared
            _compare(busy, several, _CALLS)


def _compare(case: Case, several: int, count: int = 1) -> float:
    """Compare a call with one thread and `count` calls with several.

    Returns:
        the seconds that the call with one thread took.

    Raises:
        CheckFailed: where they differ.
    """
    calls = Caller(case)

    def results_with(threads: int, arguments: Arguments | None = None) -> Leaves:
        with torch_threads(threads):
            run = calls(case.inputs() if arguments is None else arguments)
            if run.error is not None:
                reason = f"the op raises {error_line(run.error)} at a further call"
                raise skip("nothing-to-check", reason, unjudged=False)
            return copied(everything(case, run))

    start = time.process_time()
    expected = results_with(1)
    seconds = time.process_time() - start
    for _ in range(count):
        actual = results_with(several)
        wrong = disagreement(case, actual, expected)
        if wrong is not None:
            break
    if wrong is None or is_unsteady(lambda: results_with(1), expected, actual, wrong.name):
        return seconds
    for change in ROUNDINGS[:_MOVES]:
        if disagreement(case, results_with(1, change.apply(case.inputs())), expected) is not None:
            reason = "roundings of the inputs change the results as much as threads do"
            raise skip("ill-conditioned", reason, unjudged=False)
    raise fail(
        "result-depends-on-thread-count",
        f"{case.op.name}: with {several} threads of torch it does not give the same as with one: {wrong}",
        repro=call_lines(wrong.name)
        + _SCRIPT.format(several=several, calls=10 * _CALLS)
        + compare_lines(case, wrong.name),
        picture=wrong.picture,
        case=case,
    )


def _with_more_work(case: Case, seconds: float) -> Case | None:
    """A larger case, in which threads that write to one element do so at the same time.

    Threads need some time to start: if each has little to do, they work one after the other.

    Args:
        case: of a variant with a large dim.
        seconds: that a call with one thread takes.
    """
    elements = sum(tensor.numel() for _, tensor in case.inputs().tensors())
    returned = sum(tensor.numel() for _, tensor in case.eager.outputs)
    limits = (
        *(_TIMES, _BUSY / max(seconds, 1e-9), _ELEMENTS / max(elements, 1)),
        math.sqrt(_ELEMENTS / max(returned, 1)),  # results may grow with the square of it
    )
    times = int(min(limits))
    largest = max(size for _, tensor in case.inputs().tensors() for size in tensor.shape)
    if times < 2:
        return None
    # Listed offsets keep the case at its size.
    return case.resized(lambda path, dim, size: size * times if size == largest else size) or case


def _may_use_threads(op: Op) -> bool:
    """Whether the op has a native kernel for the CPU, or Python code that names threads."""
    return crash_risk(op, "cpu") is not None or not _DIVIDING.isdisjoint(names_in_code(op))


_SCRIPT = """
torch.set_num_threads(1)
expected = call(*inputs())
torch.set_num_threads({several})
for _ in range({calls}):
    got = call(*inputs())
    """


FINDINGS = {
    "result-depends-on-thread-count": Explanation(
        meaning=(
            "Results or gradients with several threads of torch differ from those with one, beyond "
            "rounding."
        ),
        why=(
            "They change with the machine, with OMP_NUM_THREADS, and in the worker processes of a data "
            "loader, which have one thread."
        ),
        fix=(
            "No part of a parallel loop (at::parallel_for) may depend on another: divide along a dim whose "
            "rows are independent, or keep a partial result for each chunk and combine them at the end. "
            "The chunks must cover every element, and no two may write to the same one."
        ),
        before="""
def part(begin, end):   # one for each thread of torch
    out[begin:end] = x[begin:end].cumsum(0)   # the sum of this chunk alone
""",
        after="""
def part(begin, end):   # of rows: each row has a sum of its own
    out[begin:end] = x[begin:end].cumsum(1)
""",
        docs=(doc_links.SET_NUM_THREADS,),
        follows=(
            "outputs-not-repeatable",
            "uninitialized-output",
            "undeclared-mutation",
            "result-depends-on-earlier-calls",
        ),
    ),
}

CHECK = Check(
    name="relations.thread_count",
    summary="one thread of torch and several give the same results and gradients",
    run=check_thread_count,
    needs=_may_use_threads,
    variants=("shape", "large"),
    variants_with_gradients=True,
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Results and gradients that differ between one thread and several, beyond another order of "
        "additions: a sum that starts anew in each chunk, a part that no chunk computes. The check runs on "
        "ops with a native kernel, or with Python code that names threads. On large variants, kernels "
        "divide their work."
    ),
    cannot_see=(
        "Work that is divided among threads that torch does not count, and ops whose results change as "
        "much when their inputs are rounded."
    ),
    cost="calls",
)
