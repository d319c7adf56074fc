"""`values.bounds`: native kernels stay inside the memory of their arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from ...cases.calls_in_copy import run_calls_in_copy
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.tensors import is_differentiable
from ...core.forked import Send
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import Caller, gradients_of
from .memory.fenced import AVAILABLE, Fence, FencedMemory, can_be_fenced

READ, WRITE = "out-of-bounds-read", "out-of-bounds-write"

_GRAD_OUTPUT = "grad_output"
_BEHIND, _BEFORE = Fence(behind=True), Fence(behind=False)


@dataclass(frozen=True)
class _Trial:
    """Calls with some tensors next to a guard page, which may not be touched.

    Args:
        fence: where the page lies.
        names: the names of these tensors; None for all.
    """

    fence: Fence
    names: Collection[str] | None = None


def check_bounds(case: Case) -> None:
    """Call the op, and its backward, with tensors that end, then begin, at a guard page."""
    device = torch.device(case.placement.device).type
    if device != "cpu" or not AVAILABLE:
        reason = "memory of this device, or of this system, cannot be fenced"
        raise skip("nothing-to-check", reason, unjudged=False)
    if not may_crash(case):
        reason = "a kernel in Python cannot leave the memory of its arguments"
        raise skip("nothing-to-check", reason, unjudged=False)
    Caller(case)  # skips where tensors have no values
    names = [name for name, tensor in case.inputs().tensors() if can_be_fenced(tensor)]
    if not names:
        reason = "no argument is a dense tensor with elements"
        raise skip("nothing-to-check", reason, unjudged=False)
    if case.requires_grad:
        names.append(_GRAD_OUTPUT)
    trials = [_Trial(_BEHIND), _Trial(_BEFORE)]
    crashed = _first_crash(case, trials)
    if crashed is not None:
        raise _finding(case, crashed, names)


def _first_crash(case: Case, trials: Sequence[_Trial]) -> _Trial | None:
    """The first trial that ends the process with forbidden guard pages, but not without.

    Raises:
        CheckSkipped: if the op does not work in a copy of this process.
    """

    def work(send: Send) -> None:
        for trial in trials:
            _call(case, trial, forbid=False)
            send("free")
            _call(case, trial, forbid=True)
            send("fenced")

    forked = run_calls_in_copy(case, work)
    if forked is None or forked.hung:
        reason = "the op does not work in a copy of this process, where a crash would not end it"
        raise skip("checker-limit", reason, unjudged=False)
    number, is_fenced = divmod(len(forked.messages), 2)
    return trials[number] if forked.died and is_fenced else None


def _call(case: Case, trial: _Trial, *, forbid: bool) -> None:
    """Call the op and its backward. Errors that they raise are ignored."""
    held: list[FencedMemory] = []

    def fenced(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if not can_be_fenced(tensor) or (trial.names is not None and name not in trial.names):
            return tensor
        held.append(FencedMemory(tensor, trial.fence))
        return held[-1].tensor

    def forbid_all() -> None:
        for memory in held if forbid else ():
            memory.forbid()

    def grad_outputs(outputs: list[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
        grads = [fenced(_GRAD_OUTPUT, grad) for grad in case.grad_outputs(outputs)]
        forbid_all()
        return grads

    arguments = case.inputs().map_distinct(fenced)
    forbid_all()
    run = Caller(case)(arguments)
    if run.error is None:
        gradients_of(case, run, grad_outputs)


def _finding(case: Case, crashed: _Trial, names: Sequence[str]) -> CheckFailed:
    """The finding: it names the argument, and whether the op reads or writes beside it."""
    fence = crashed.fence
    alone = [_Trial(fence, (name,)) for name in names]
    named = next((trial for trial in alone if _first_crash(case, [trial]) is not None), crashed)
    writes = _Trial(Fence(fence.behind, readable=True), named.names)
    does_write = _first_crash(case, [writes]) is not None
    verb, code = ("writes", WRITE) if does_write else ("reads", READ)
    where = "behind the last element" if fence.behind else "before the first element"
    what = "its arguments" if named.names is None else " and ".join(named.names)
    text = f"{case.op.name}: it {verb} {where} of {what}"
    careful = case.kind == "positions" and _rejects_too_large(case)
    if careful:
        text += ". It raises for numbers that are too large, but not for these negative ones"
    script = _SCRIPT.format(behind=fence.behind, forbidden=1 if does_write else 0)
    return fail(code, text, repro=script, rejects_others=careful)


def _rejects_too_large(case: Case) -> bool:
    """Whether the op raises if negative integers are replaced by one that exceeds all sizes."""
    inputs = case.inputs()
    too_large = 1 + max(tensor.numel() for _, tensor in inputs.tensors())

    def enlarged(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if is_differentiable(tensor.dtype) or tensor.dtype == torch.bool:
            return tensor
        fits = too_large <= torch.iinfo(tensor.dtype).max
        return tensor.masked_fill(tensor < 0, too_large) if fits else tensor

    arguments = inputs.map_distinct(enlarged)
    forked = run_calls_in_copy(case, lambda send: send(Caller(case)(arguments).error is not None))
    return forked is not None and forked.messages == [True]


_SCRIPT = """
import ctypes
import faulthandler
import mmap
import os

from torch.utils._pytree import tree_leaves, tree_map_only

BEHIND, FORBIDDEN = {behind}, {forbidden}  # on the page, 0 forbids any access, 1 only writes
PAGE = mmap.PAGESIZE


def fenced(t):
    if not t.is_contiguous() or not t.numel():
        return t
    size = t.numel() * t.itemsize
    pages = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = pages - size if BEHIND else PAGE
    moved = torch.frombuffer(memory, dtype=t.dtype, count=t.numel(), offset=offset).view(t.shape)
    with torch.no_grad():
        moved.copy_(t)
    page = start + pages if BEHIND else start
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), FORBIDDEN)
    return moved.requires_grad_(t.requires_grad)


child = os.fork()  # an access to the page ends the process
if child == 0:
    try:
        faulthandler.disable()
        torch.set_num_threads(1)
        args, kwargs = tree_map_only(torch.Tensor, fenced, inputs())
        found = tree_leaves(op(*args, **kwargs))
        outputs = [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [fenced(torch.ones_like(t)) for t in outputs])
    finally:
        os._exit(0)
_, status = os.waitpid(child, 0)
assert not os.WIFSIGNALED(status), f"ended by signal {{os.WTERMSIG(status)}} at the page"
"""
_BEFORE_FIX = """
@numba.njit
def means(x, out):
    for i in range(len(x)):
        out[i] = 0.5 * (x[i] + x[i + 1])  # x[len(x)] at the end
"""
_AFTER_FIX = """
@numba.njit
def means(x, out):
    for i in range(len(x)):
        out[i] = 0.5 * (x[i] + x[min(i + 1, len(x) - 1)])
"""
FINDINGS = {
    READ: Explanation(
        meaning=(
            "The kernel reads memory outside the argument: with a guard page next to the argument, the "
            "call ends the process."
        ),
        why=(
            "That memory mostly holds other data. So little shows: occasional wrong numbers, a NaN times "
            "0, or a crash once in a thousand runs, when the memory happens to end there."
        ),
        fix=(
            "Check the bounds of every loop against the sizes of the tensor: the last element, the last "
            "vector or tile of a row, index + 1. Read an incomplete last part element by element."
        ),
        before=_BEFORE_FIX,
        after=_AFTER_FIX,
        docs=(doc_links.MANUAL,),
        follows=("crash",),
    ),
    WRITE: Explanation(
        meaning=(
            "The kernel writes to memory outside the argument: with a write-protected page next to the "
            "argument, the call ends the process."
        ),
        why=(
            "This overwrites other data: another tensor, or the lists of the allocator. The crash or the "
            "wrong number comes later, somewhere else."
        ),
        fix=(
            "Check the bounds of every loop against the sizes of the tensor that is written to. Write an "
            "incomplete last part element by element."
        ),
        before="""
@numba.njit
def clear(out):
    for i in range(len(out) + 1):
        out[i] = 0
""",
        after="""
@numba.njit
def clear(out):
    for i in range(len(out)):
        out[i] = 0
""",
        docs=(doc_links.MANUAL,),
        follows=("crash",),
    ),
}

CHECK = Check(
    name="values.bounds",
    summary="native kernels read and write only inside the memory of their arguments",
    run=check_bounds,
    variants=("shape", "values", "magnitudes", "positions"),  # integers may be positions in a table
    cheap=True,
    in_copies=may_crash,
    findings=FINDINGS,
    catches=(
        "A native kernel (C++, C, numba, cffi) that reads or writes behind the last element of an argument "
        "or of a grad_output, or before the first one. In a copy of the process, all tensors end, then "
        "begin, at a guard page that may not be touched (`mprotect`). A call that ends the copy is a "
        "finding if the same call does not when the page is free. The finding names the argument. It also "
        "says if the op rejects positions that are too large, but not those below 0."
    ),
    cannot_see=(
        "Accesses to outputs and to the kernel's own memory. Accesses within an argument: a row that reads "
        "the next row. Accesses more than a page away from the tensor. Kernels in Python, devices other "
        "than the CPU, Windows."
    ),
    cost="calls",
)
