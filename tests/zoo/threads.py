"""Ops that several threads call at once."""

import functools
import threading

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
ONCE = {"gradcheck.double": "no-second-order"}
UNSAFE = {"values.threads": "thread-unsafe"}


def op(name, kernel, of_gradient=None):
    """An op; with `of_gradient`, its backward is an op of its own with this kernel."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return kernel(x)

    operator.register_fake(lambda x: torch.empty_like(x))
    if of_gradient is not None:
        gradient = op(f"{name}_gradient", of_gradient)
        operator.register_autograd(
            torch.autograd.function.once_differentiable(lambda ctx, grad: gradient(grad))
        )
    return operator


def _square(x, space):
    """Squares by way of a workspace of float64 numbers."""
    part = space[: x.numel()]
    part.copy_(x.flatten())
    part.mul_(part)
    return part.to(x.dtype).view(x.shape).clone(memory_format=torch.preserve_format)


@aot((MATRIX,), expected=UNSAFE)
def workspace_of_the_module():
    """Computes in one workspace whatever thread calls, and returns a copy."""
    space = torch.empty(4096, dtype=torch.float64)
    return op("workspace_of_the_module", lambda x: _square(x.contiguous(), space))


def _double(x, space):
    """Doubles by way of a workspace."""
    part = space[: x.numel()].view(x.shape)
    part.copy_(x)
    return torch.empty_like(x).copy_(part).mul_(2)


@aot((MATRIX,), expected=UNSAFE, skips=ONCE)
def backward_in_a_workspace():
    """Computes gradients in one workspace whatever thread calls."""
    space = torch.empty(4096, dtype=torch.float64)
    return op("backward_in_a_workspace", lambda x: x * 2, lambda grad: _double(grad, space))


@aot((MATRIX,), expected=UNSAFE)
def not_reentrant():
    """Raises if a call comes while another one runs."""
    running = []

    def kernel(x):
        if running:
            raise RuntimeError("not reentrant")
        running.append(x)
        try:
            return x * 2
        finally:
            running.clear()

    return op("not_reentrant", kernel)


@aot((MATRIX,), expected=UNSAFE)
def only_in_the_main_thread():
    """Finds its workspace only in the thread that imported it."""
    kept = threading.local()
    kept.space = torch.empty(4096, dtype=torch.float64)
    return op("only_in_the_main_thread", lambda x: _square(x.contiguous(), kept.space))


@aot(
    (MATRIX,),
    twin_of=(
        "workspace_of_the_module",
        "only_in_the_main_thread",
        "not_reentrant",
    ),
)
def workspace_of_the_thread():
    """Computes in a workspace of the thread that calls."""
    kept = threading.local()

    def kernel(x):
        if not hasattr(kept, "space"):
            kept.space = torch.empty(4096, dtype=torch.float64)
        return torch.empty_like(x).copy_(_square(x, kept.space))

    return op("workspace_of_the_thread", kernel)


@aot((MATRIX,), twin_of="backward_in_a_workspace", skips=ONCE)
def workspaces_with_a_lock():
    """Computes in a workspace that a lock guards, forward and backward."""
    lock = threading.Lock()
    space = torch.empty(4096, dtype=torch.float64)

    def kernel(x):
        with lock:
            return _double(x, space)

    return op("workspaces_with_a_lock", kernel, kernel)


def _with_two_locks(name, swapped):
    first, second = threading.Lock(), threading.Lock()

    def kernel(x):
        with first:
            doubled = x * 2
            with second:
                return doubled

    def of_gradient(grad):
        with second if swapped else first:
            doubled = grad * 2
            with first if swapped else second:
                return doubled

    return op(name, kernel, of_gradient)


@aot((MATRIX,), expected={"values.threads": "thread-deadlock"}, skips=ONCE)
def locks_in_two_orders():
    """Takes two locks, and in the backward the other one first."""
    return _with_two_locks("locks_in_two_orders", swapped=True)


@aot((MATRIX,), twin_of="locks_in_two_orders", skips=ONCE)
def locks_in_one_order():
    """Takes two locks, in the backward in the same order."""
    return _with_two_locks("locks_in_one_order", swapped=False)


def _from_table(name, is_filled):
    """Adds a table that each thread has; `is_filled(state)` says whether a thread has filled its own."""
    state = threading.local()

    def kernel(x):
        if not hasattr(state, "table"):
            state.table = torch.zeros(3)
        if not is_filled(state):
            state.table = torch.arange(3.0)
        return x + state.table.to(x.dtype)[: x.shape[-1]]

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != 3:
            raise ValueError("expected three columns")
        return kernel(x).contiguous()

    @operator.register_fake
    def _(x):
        if x.dim() != 2 or x.shape[1] != 3:
            raise ValueError("expected three columns")
        return x.new_empty(x.shape)

    return operator


@aot((MATRIX,), expected=UNSAFE)
def table_filled_by_the_first_thread():
    """Fills its table in the first thread that calls, and each thread has one."""
    filled = []

    def is_filled(state):
        if filled:
            return True
        filled.append(True)
        return False

    return _from_table("table_filled_by_the_first_thread", is_filled)


@aot((MATRIX,), twin_of="table_filled_by_the_first_thread")
def table_filled_by_each_thread():
    """Fills its table in each thread."""

    def is_filled(state):
        known = hasattr(state, "filled")
        state.filled = True
        return known

    return _from_table("table_filled_by_each_thread", is_filled)
