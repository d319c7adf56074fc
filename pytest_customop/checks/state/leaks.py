"""`state.leaks`: calls leave no memory, open files or threads behind."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...cases.case import Case
from ...core.tracebacks import reraise_bug
from ...findings import CheckFailed, Explanation, doc_links, fail
from ..check import Check
from .gauges import (
    MEMORY,
    RESOURCE,
    Gauge,
    above_noise,
    all_gauges,
    leaking,
    quiet,
    types_of_objects,
)

_CALLS = 10  # in a window
_WARM = 5  # calls before the first window
_SLOW, _FEW = 0.02, 4  # seconds; and the calls in a window of an op that takes longer
_MORE, _FEW_MORE = 5, 2  # times as many calls are in the windows that confirm a leak; for a slow op
_CACHE = 600  # calls after which a cache of usual size is full
_CACHE_SECONDS = 3.0  # for these calls


@dataclass(frozen=True)
class _Way:
    """How the op is called.

    Args:
        what: the call, for a message.
        backward: whether its backward runs.
    """

    what: str
    backward: bool = False

    def call(self, case: Case) -> None:
        """Call the op, and its backward if `backward`, and drop the results."""
        try:
            run = case.run(case.inputs())
            if self.backward:
                case.gradients_of(run)
        except Exception as error:  # a backward may raise; another check reports that
            reraise_bug(error)


@dataclass(frozen=True)
class _Growth:
    """The growth by gauge, in windows of so many calls, and the types of the objects that remain."""

    gauges: list[tuple[Gauge, list[int]]]
    calls: int
    types: list[str]


def check_leaks(case: Case) -> None:
    """Call the op some dozens of times, and compare what the process holds before and after."""
    for way in _ways(case):
        with quiet():
            growth = _growth(case, functools.partial(way.call, case))
        if growth is not None:
            raise _finding(case, way, growth)


def _ways(case: Case) -> list[_Way]:
    if not case.requires_grad:
        return [_Way("a call")]
    with_backward = _Way("a call with its backward", backward=True)
    without = _Way("a call whose outputs are dropped, so that its backward never runs,")
    return [with_backward] if case.variant is not None else [with_backward, without]


def _growth(case: Case, call: Callable[[], None]) -> _Growth | None:
    """What grows with the calls; None if nothing does."""
    if case.variant is not None and not _may_leak(call):
        return None
    calls, more = (_CALLS, _MORE) if _warm_up(call) < _SLOW else (_FEW, _FEW_MORE)
    gauges = above_noise(all_gauges(), case.inputs, calls)
    suspects = [gauge for gauge, _ in leaking(gauges, call, calls)]
    if not suspects:
        return None
    types: list[str] = []
    resources = [gauge for gauge in suspects if gauge.code == RESOURCE]
    if resources:
        suspects = resources  # a process may have few of them: no more calls than necessary
        leaks = leaking(suspects, call, calls)
    else:
        _fill_caches(call)
        calls *= more  # what is left by chance does not grow with the calls
        leaks = leaking(suspects, call, calls)
        types = types_of_objects(call, calls)
    if leaks:  # a second time, as other threads of the process may allocate too
        leaks = leaking([gauge for gauge, _ in leaks], call, calls)
    return _Growth(leaks, calls, types) if leaks else None


def _finding(case: Case, way: _Way, growth: _Growth) -> CheckFailed:
    calls = growth.calls
    amounts = [gauge.amount(grown, calls) for gauge, grown in growth.gauges]
    evidence = [
        f"{gauge.name}, more after each {calls} calls: {', '.join(map(str, grown))}"
        for gauge, grown in growth.gauges
    ]
    resource = any(gauge.code == RESOURCE for gauge, _ in growth.gauges)
    return fail(
        RESOURCE if resource else MEMORY,
        f"{case.op.name}: {way.what} leaves {' and '.join(amounts)}",
        "\n".join([*evidence, *growth.types]),
        repro=_script(way),
    )


def _may_leak(call: Callable[[], None]) -> bool:
    """Whether something grows in three short windows; if not, a variant is not checked further."""
    call()
    return bool(leaking(all_gauges(), call, _FEW))


def _warm_up(call: Callable[[], None]) -> float:
    """Make the first calls; returns the seconds of the fastest, as others may wait for the machine."""
    fastest = float("inf")
    for _ in range(_WARM):
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        fastest = min(fastest, took)
        if fastest > 10 * _SLOW:
            break
    return fastest


def _fill_caches(call: Callable[[], None]) -> None:
    end = time.monotonic() + _CACHE_SECONDS
    for _ in range(_CACHE):
        call()
        if time.monotonic() > end:
            break


_SCRIPT = """
import ctypes
import gc
import os
import sys

from torch.utils._pytree import tree_leaves


class MallInfo2(ctypes.Structure):
    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(10)]


mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
if mallinfo2 is not None:
    mallinfo2.restype = MallInfo2


clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache


def held():
    gc.collect()
    clear_caches()
    info = mallinfo2() if mallinfo2 is not None else MallInfo2()
    return {
        "bytes of the C heap": (info.field4 + info.field7) // 16,
        "Python objects": sys.getallocatedblocks(),
        "open files": len(os.listdir("/dev/fd")) * 2,
        "threads": len(os.listdir("/proc/self/task")) * 2 if os.path.isdir("/proc/self/task") else 0,
    }


def call():
    args, kwargs = inputs()
    result = op(*args, **kwargs)
    BACKWARD


def window(calls):
    before = held()
    for _ in range(calls):
        call()
    after = held()
    return {name: after[name] - before[name] for name in before}


window(50)
windows = [window(100) for _ in range(3)]
for name in windows[0]:
    growth = [one[name] for one in windows]
    assert min(growth) < 90, f"{name} grow with each call: {growth}"
"""

_BACKWARD = """
    outputs = [t for t in tree_leaves(result) if getattr(t, "requires_grad", False)]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
"""


def _script(way: _Way) -> str:
    return _SCRIPT.replace("\n    BACKWARD\n", _BACKWARD if way.backward else "\n")


FINDINGS = {
    MEMORY: Explanation(
        meaning=(
            "Each call of the op, or of its backward, leaves memory allocated: the amount grows with "
            "the number of calls and does not stop."
        ),
        why="A training run or a server ends after hours or days, when there is no memory left.",
        fix=(
            "Free in the kernel what it allocates: use std::vector, std::unique_ptr or at::empty instead "
            "of malloc and new. Keep no tensors in a list, dict or closure at module level. A cache needs "
            "a maximum size and keys that recur (shapes, not addresses). Keep what the backward needs in "
            "ctx: it is freed with the graph, even if no backward runs."
        ),
        before="""
_seen = []

def kernel(x):
    _seen.append(x)
    return x * 2
""",
        after="""
def kernel(x):
    return x * 2
""",
        docs=(doc_links.LIBRARY,),
        follows=("stale-result",),
    ),
    RESOURCE: Explanation(
        meaning="Each call of the op, or of its backward, leaves an open file or a thread behind.",
        why=(
            "The process reaches its limit of open files or threads, often after a thousand calls, and "
            "whatever opens the next one fails."
        ),
        fix=(
            "Open files in a `with` block, and close what is opened in C++ (RAII). Start threads once, or "
            "use torch's (at::parallel_for), and join the ones that a call starts."
        ),
        before="""
table = open(path, "rb")
weights = table.read()
""",
        after="""
with open(path, "rb") as table:
    weights = table.read()
""",
        docs=(doc_links.LIBRARY,),
    ),
}

CHECK = Check(
    name="state.leaks",
    summary="calls leave no memory, open files or threads behind",
    run=check_leaks,
    variants=("positions", "arguments"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "After some warm-up calls: bytes of the C heap (`mallinfo2` of glibc; CPU tensors are among them), "
        "Python objects, open files and threads that grow evenly in three windows of ten calls. The calls "
        "are forward and backward, and then forward alone: what the backward would need must go with the "
        "graph. Growth that copying the inputs causes does not count. If memory grows, up to 600 more "
        "calls fill caches, and it has to grow again after them. A variant of the sample, which may take "
        "another branch, is first called about a dozen times, and not checked further if nothing grows."
    ),
    cannot_see=(
        "Occasional leaks, memory that grows in large steps (a vector that doubles) or was mapped without "
        "malloc, the C heap on systems without glibc 2.33, memory of other devices."
    ),
    cost="many calls",
)
