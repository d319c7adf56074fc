"""`state.leaks`: calls leave no memory, open files or threads behind."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...cases.case import Case, gradients
from ...core.heap import heap_gauge, native_threads, open_files
from ...core.tracebacks import reraise_bug
from ...findings import CheckFailed, Explanation, doc_links, fail
from ..check import Check

MEMORY, RESOURCE = "memory-leaked", "resource-leaked"

_WINDOWS = 3
_CALLS = 10  # in a window
_WARM = 5  # calls before the first window
_SLOW, _FEW = 0.02, 4  # seconds; and the calls in a window of an op that takes longer
_MORE = 5  # times as many calls are in the windows that confirm a leak
_CACHE = 600  # calls after which a cache of usual size is full
_CACHE_SECONDS = 3.0  # for these calls
_TYPES = 5  # types of objects that are listed


@dataclass(frozen=True)
class _Gauge:
    """Something that calls may leave.

    Args:
        name: of one unit, for a message: `bytes of the C heap`.
        code: of the finding.
        read: gives the amount that there is now.
        least: the amount a call that is taken for a leak.
        slack: by how much windows may differ.
    """

    name: str
    code: str
    read: Callable[[], int | None]
    least: float
    slack: int = 0

    def leaks(self, growth: list[int], calls: int) -> bool:
        """Whether the amount grew alike in all windows of so many calls."""
        smallest, largest = min(growth), max(growth)
        return smallest >= self.least * calls and largest <= 1.25 * smallest + self.slack


def check_leaks(case: Case) -> None:
    """Call the op some dozens of times, and read before and after what the process holds."""

    def call() -> None:
        _call(case)

    with _quiet():
        if case.variant is not None and not _may_leak(call):
            return
        calls = _CALLS if _warm_up(call) < _SLOW else _FEW
        gauges = _gauges()
        noisy = _leaking(gauges, case.inputs, calls)
        suspects = _leaking([one for one in gauges if one not in noisy], call, calls)
        if not suspects:
            return
        types: list[str] = []
        resources = [one for one in suspects if one.code == RESOURCE]
        if resources:
            suspects = resources  # a process may have few of them: no more calls than must be
            growth = _grown(suspects, call, calls)
        else:
            _fill_caches(call)
            calls *= _MORE  # what is left by chance does not grow with the calls
            growth = _grown(suspects, call, calls)
            types = _types(call, calls)
        found = [
            (gauge, grown)
            for gauge, grown in zip(suspects, growth, strict=True)
            if gauge.leaks(grown, calls)
        ]
        if found:  # a second time, as other threads of the process may allocate too
            grows = _leaking([gauge for gauge, _ in found], call, calls)
            found = [(gauge, grown) for gauge, grown in found if gauge in grows]
    if found:
        raise _finding(case, found, calls, types)


def _finding(
    case: Case, found: list[tuple[_Gauge, list[int]]], calls: int, types: list[str]
) -> CheckFailed:
    """The finding for gauges that grow, each with its growth in windows of so many calls."""
    what = "a call with its backward" if case.requires_grad else "a call"
    amounts = [f"{min(grown) / calls:.0f} {gauge.name}" for gauge, grown in found]
    evidence = [
        f"{gauge.name}, more after each {calls} calls: {', '.join(map(str, grown))}"
        for gauge, grown in found
    ]
    resource = any(gauge.code == RESOURCE for gauge, _ in found)
    return fail(
        RESOURCE if resource else MEMORY,
        f"{case.op.name}: {what} leaves {' and '.join(amounts)}",
        "\n".join([*evidence, *types]),
        repro=_SCRIPT,
    )


def _call(case: Case) -> None:
    """Call the op, and its backward where there is one, and forget the results."""
    arguments = case.inputs()
    try:
        run = case.run(arguments)
        outputs = run.differentiable_outputs
        if case.requires_grad and outputs and arguments.differentiable():
            gradients(arguments, outputs, case.grad_outputs(outputs))
    except Exception as error:  # a backward may raise; another check says so
        reraise_bug(error)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing that the op prints or logs is kept by what captures it, and no collection comes between.

    Where objects are frozen already, as in a child process, those that are new stay frozen too.
    """
    enabled, disabled = gc.isenabled(), logging.root.manager.disable
    frozen = gc.get_freeze_count()
    sink = _Sink()
    gc.disable()
    gc.freeze()  # a whole collection, which also empties the free lists, then takes no time
    logging.disable(sys.maxsize)
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            yield
    finally:
        logging.disable(disabled)
        if not frozen:
            gc.unfreeze()
        if enabled:
            gc.enable()


def _may_leak(call: Callable[[], None]) -> bool:
    """Whether something grows in three short windows; if not, a variant is left alone."""
    call()
    return bool(_leaking(_gauges(), call, _FEW))


class _Sink(io.TextIOBase):
    """A file that forgets what is written to it."""

    def write(self, text: str) -> int:
        return len(text)


def _warm_up(call: Callable[[], None]) -> float:
    """Make the first calls; returns the seconds that the last one took."""
    start = end = time.perf_counter()
    for _ in range(_WARM):
        start, end = end, 0.0
        call()
        end = time.perf_counter()
        if end - start > 10 * _SLOW:
            break
    return end - start


def _fill_caches(call: Callable[[], None]) -> None:
    end = time.monotonic() + _CACHE_SECONDS
    for _ in range(_CACHE):
        call()
        if time.monotonic() > end:
            break


def _leaking(gauges: list[_Gauge], call: Callable[[], object], calls: int) -> list[_Gauge]:
    grown = _grown(gauges, call, calls)
    return [one for one, growth in zip(gauges, grown, strict=True) if one.leaks(growth, calls)]


def _grown(gauges: list[_Gauge], call: Callable[[], object], calls: int) -> list[list[int]]:
    """By gauge, how much there is more after each window of so many calls."""
    readings: list[list[int]] = [[0] * (_WINDOWS + 1) for _ in gauges]
    for window in range(_WINDOWS + 1):
        if window:
            for _ in range(calls):
                call()
        gc.collect()
        for gauge, reading in zip(gauges, readings, strict=True):
            reading[window] = gauge.read() or 0
    return [
        [after - before for before, after in itertools.pairwise(reading)] for reading in readings
    ]


def _gauges() -> list[_Gauge]:
    heap = heap_gauge()
    found = [
        _Gauge("Python objects", MEMORY, sys.getallocatedblocks, 1, slack=2),
        _Gauge("open files", RESOURCE, open_files, 0.5),
        _Gauge("threads", RESOURCE, native_threads, 0.5),
    ]
    if heap is not None:
        found.insert(0, _Gauge("bytes of the C heap", MEMORY, heap, 16, slack=4096))
    return found


def _types(call: Callable[[], object], calls: int) -> list[str]:
    """The types of which there are more objects after each call, for the evidence."""
    before = _count()
    for _ in range(calls):
        call()
    gc.collect()
    new = _count() - before
    listed = [f"{number} {name}" for name, number in new.most_common(_TYPES) if number >= calls]
    return [f"objects of Python after {calls} calls more: {', '.join(listed)}"] if listed else []


def _count() -> Counter[str]:
    return Counter(
        f"{type(one).__module__}.{type(one).__qualname__}".removeprefix("builtins.")
        for one in gc.get_objects()
    )


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


def held():
    gc.collect()
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
    outputs = [t for t in tree_leaves(result) if getattr(t, "requires_grad", False)]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


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

FINDINGS = {
    MEMORY: Explanation(
        meaning=(
            "Each call of the op, or of its backward, leaves memory allocated: the amount grows with "
            "the number of calls and does not stop."
        ),
        why="A training run or a server ends after hours or days, when there is no memory left.",
        fix=(
            "Free in the kernel what it allocates: std::vector, std::unique_ptr or at::empty in place of "
            "malloc and new. Let no list, dict or closure at module level keep tensors; a cache needs a "
            "largest size and keys that come again (shapes, not addresses)."
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
            "use those of torch (at::parallel_for), and join the ones that a call starts."
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
    variants=("values", "positions", "arguments"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "After some calls that warm up: bytes of the C heap (`mallinfo2` of glibc; tensors of the CPU are "
        "among them), objects of Python, open files and threads that grow alike in three windows of ten "
        "calls, forward and backward. Copies of the inputs alone must not grow them. What grows is called "
        "600 times more, so that a cache fills, and has to grow again. A variant of the sample, which may "
        "take another branch, is called some dozen times before that, and left alone if nothing grows."
    ),
    cannot_see=(
        "Leaks that happen now and then, memory that grows in large steps (a vector that doubles) or was "
        "mapped without malloc, the C heap on systems "
        "without glibc 2.33, memory of other devices."
    ),
    cost="many calls",
)
