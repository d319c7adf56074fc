"""`values.threads`: calls in several threads at once give what each gives alone."""

from __future__ import annotations

from typing import Any

import torch

from ....cases.case import Case
from ....cases.crash_risk import crash_risk
from ....core.forked import AVAILABLE, Forked, run_in_copy
from ....findings import CheckFailed, Explanation, doc_links, fail, skip
from ...check import Check
from ..memory.calls import Caller, skip_if_incomparable, skip_if_keeps_nothing
from .calls import in_python
from .trial import DEADLOCK, UNSAFE, NotJudged, Stop, Wrong, seconds_alone, try_threads

_SECONDS = 60.0  # for a fork whose calls take no time


def check_threads(case: Case) -> None:
    """Call the op in several threads, each with its own inputs, and compare with calls alone."""
    Caller(case)  # skips where tensors have no values
    skip_if_incomparable(case)
    skip_if_keeps_nothing(case)
    if case.variant is not None and not crash_risk(case.op, case.placement.device):
        reason = "a Python kernel is checked on the sample itself, interrupted at each line"
        raise skip("nothing-to-check", reason, unjudged=False)
    if any(isinstance(value, torch.Generator) for _, value in case.inputs().named()):
        raise skip("nondeterministic", "the op draws from a generator", unjudged=False)
    try:
        seconds = seconds_alone(case)
    except Stop as stop:
        _judge(case, [stop.verdict])
        return
    if AVAILABLE and torch.device(case.placement.device).type == "cpu":
        forked = run_in_copy(
            lambda send: try_threads(case, seconds, send), _SECONDS + 400 * seconds
        )
        if forked is not None and forked.messages:
            _judge(case, forked.messages)
            _judge_end(case, forked)
            return
        if not in_python(case):
            reason = (
                "the op does not work in a fork of this process, where a crash would not end it"
            )
            raise skip("checker-limit", reason)
    messages: list[Any] = []
    try_threads(case, seconds, messages.append)
    if not messages:
        raise skip("checker-limit", "the op does not work in a thread when torch has one thread")
    _judge(case, messages)


def _judge(case: Case, messages: list[Any]) -> None:
    for message in messages:
        if isinstance(message, NotJudged):
            raise skip(message.code, message.reason, unjudged=message.code == "checker-limit")
        if isinstance(message, Wrong):
            raise _finding(case, message.code, message.message, message.evidence)


def _judge_end(case: Case, forked: Forked) -> None:
    """Fail if simultaneous calls ended the process, or did not return."""
    if forked.hung:
        text = "called in several threads at once it does not return, and no thread of Python runs"
        raise _finding(case, DEADLOCK, text, forked.crash)
    if forked.died:
        text = f"called in several threads at once it ends the process by signal {forked.signal}"
        raise _finding(case, UNSAFE, text, forked.crash)


def _finding(case: Case, code: str, text: str, evidence: str) -> CheckFailed:
    return fail(code, f"{case.op.name}: {text}", evidence, repro=_SCRIPT)


_SCRIPT = """
import os
import sys
import threading
import time

from torch.utils._pytree import tree_leaves


def call(factor):
    args, kwargs = inputs()
    with torch.no_grad():
        for t in tree_leaves((args, kwargs)):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                t.mul_(factor)
    result = op(*args, **kwargs)
    found = [t for t in tree_leaves((result, args, kwargs)) if isinstance(t, torch.Tensor)]
    outputs = [t for t in tree_leaves(result) if getattr(t, "requires_grad", False)]
    if outputs:
        torch.autograd.backward(outputs, [torch.full_like(t, factor) for t in outputs])
    return found + [t.grad for t in found if t.is_leaf and t.grad is not None]


FACTORS = (1.0, -0.5, 0.5, 0.25)
PYTHON, TORCH = os.path.dirname(os.__file__), os.path.dirname(torch.__file__)
wrong = []


def compare(factor, then=None):
    try:
        if then is not None:
            sys.setprofile(then)
            sys.settrace(then)
        got = call(factor)
        sys.setprofile(None)
        sys.settrace(None)
        torch.testing.assert_close(got, wanted[factor], equal_nan=True)
    except BaseException as error:
        wrong.append(error)


def interrupted(at):
    # A call in one thread; when it gets to event number `at`, a whole call in another thread.
    events = 0

    def then(frame, event, value):
        nonlocal events
        file = frame.f_code.co_filename
        in_python = file.startswith(PYTHON) and "site-packages" not in file
        if event in ("line", "c_return") and not (in_python or file.startswith((TORCH, __file__))):
            events += 1
            if events == at:
                other = threading.Thread(target=compare, args=(-0.5,), daemon=True)
                other.start()
                other.join(0.02)
        return then

    run_all([threading.Thread(target=compare, args=(1.0, then), daemon=True)])
    return events >= at


def again_and_again(factor):
    end = time.monotonic() + 2
    while time.monotonic() < end and not wrong:
        compare(factor)


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive(), "the threads wait for each other"
    if wrong:
        raise wrong[0]


def test():
    at = 1
    while at < 100 and interrupted(at):
        at += 1
    sys.setswitchinterval(1e-6)
    run_all([threading.Thread(target=again_and_again, args=(f,), daemon=True) for f in FACTORS])


wanted = {factor: call(factor) for factor in FACTORS}
child = os.fork()  # simultaneous calls may end or block the process
if child == 0:
    try:
        torch.set_num_threads(1)
        test()
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(1)
for _ in range(300):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    os.waitpid(child, 0)
    status = 1
assert status == 0, "calls in several threads are not what they are alone"
"""

FINDINGS = {
    UNSAFE: Explanation(
        meaning=(
            "Called in several threads, each with its own inputs, the op gives other values than alone, "
            "raises, or ends the process."
        ),
        why=(
            "Servers call a model from several threads, and so do torch.nn.DataParallel and the "
            "autograd engine with several devices. torch.ops releases the GIL, and so does every torch "
            "function that a Python kernel calls: another call runs in between and writes to the same "
            "buffer. Wrong values appear only under load."
        ),
        fix=(
            "Allocate the workspace in the call, or keep one per thread (threading.local, thread_local "
            "in C++), and fill it in every thread. If calls have to share it, hold a lock from the first "
            "write to the last read."
        ),
        before="""
_workspace = torch.empty(4096)

def kernel(x):
    buffer = _workspace[: x.numel()]
    torch.mul(x.flatten(), x.flatten(), out=buffer)
    return buffer.sqrt().view(x.shape)
""",
        after="""
def kernel(x):
    buffer = x.new_empty(x.numel())
    torch.mul(x.flatten(), x.flatten(), out=buffer)
    return buffer.sqrt().view(x.shape)
""",
        docs=(doc_links.LIBRARY, doc_links.PYTHON_CUSTOM_OPS),
        follows=(
            *("output-memory-reused", "outputs-not-repeatable", "backward-state-shared"),
            *("uninitialized-output", "uninitialized-gradient"),
        ),
    ),
    DEADLOCK: Explanation(
        meaning="Called in several threads at once, the op does not return.",
        why="A server or a training loop stops without an error, and only under load.",
        fix=(
            "Take locks in the same order everywhere. Do not call into torch or Python while holding one: "
            "a native kernel that waits for the GIL blocks every thread that waits for the kernel's "
            "lock. Use threading.RLock where a call may reenter itself."
        ),
        before="""
def kernel(x):
    with _reading, _writing:
        ...

def backward(ctx, grad):
    with _writing, _reading:
        ...
""",
        after="""
def kernel(x):
    with _reading, _writing:
        ...

def backward(ctx, grad):
    with _reading, _writing:
        ...
""",
        docs=(doc_links.LIBRARY,),
    ),
}

CHECK = Check(
    name="values.threads",
    summary="calls in several threads at once give what each gives alone",
    run=check_threads,
    variants=("large",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Buffers that calls share: a call in one thread overwrites data that a call in another thread is "
        "computing with. Each thread has its own inputs, and must get, forward and backward, what it gets "
        "alone. Python code is interrupted on purpose: a thread is stopped at each line of the author's "
        "code, and after each function that returns there, while another thread makes a whole call. Then "
        "four threads call at once; native kernels run in parallel then, because `torch.ops` releases the "
        "GIL. Also an op that raises, ends the process or does not return only then, and one that works, "
        "or gives the right values, only in the main thread. Most of it runs in a fork of the process."
    ),
    cannot_see=(
        "Ops whose values differ from call to call even alone, and differences within rounding. The first "
        "call of a process, which may fill a cache. Counters. In native code, a race shorter than a "
        "microsecond is found only by chance; a larger sample improves the chance. Integer inputs of a "
        "native kernel are the same in all threads. An op of `custom_op` whose Python code refers to "
        "nothing that it could keep is not called."
    ),
    cost="many calls",
)
