"""Backwards that write to what is not theirs."""

import functools
import threading

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry
from .registry import since

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)
ONCE = {"gradcheck.double": "no-second-order"}


def _op(name, kernel, backward, setup=None):
    """An op of one tensor; `backward(ctx, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(backward, setup_context=setup)
    return op


def _save_input(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradient_op(name, kernel):
    """An op `(x, grad) -> gradient` for a backward to call, with a fake kernel and no formula."""

    @torch.library.custom_op(f"zoo::{name}_gradient", mutates_args=())
    def gradient(x: Tensor, grad: Tensor) -> Tensor:
        return kernel(x, grad)

    gradient.register_fake(lambda x, grad: torch.empty_like(x))
    return gradient


@specimen(
    (MATRIX,),
    expected={
        "backward.intact": "backward-mutates",
        "backward.layouts": "grad-output-layout-refused",
        "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
        "compile.static": since("2.5", None, "compile-error"),
        "compile.dynamic": since("2.5", None, "compile-error"),
    },
    skips=ONCE,
)
def backward_scales_in_place():
    """Doubles grad_output in place."""
    return _op("backward_scales_in_place", lambda x: x * 2, lambda ctx, grad: grad.mul_(2))


@specimen((MATRIX,), twin_of="backward_scales_in_place")
def backward_scales():
    """Doubles grad_output in memory of its own."""
    return _op("backward_scales", lambda x: x * 2, lambda ctx, grad: grad * 2)


def _exponential(name, write):
    """An exponential whose backward computes in the memory of the saved output, if `write`."""

    def kernel(y, grad):
        return torch.mul(y, grad, out=y.data) if write else y * grad

    gradient = _gradient_op(name, lambda y, grad: kernel(y, grad).clone())
    return _op(
        name,
        torch.exp,
        lambda ctx, grad: gradient(*ctx.saved_tensors, grad),
        lambda ctx, inputs, output: ctx.save_for_backward(output),
    )


@specimen(
    (MATRIX,),
    expected={
        "backward.intact": "backward-mutates",
    },
    skips={**ONCE, "gradcheck.backward": "nondeterministic"},
)
def backward_reuses_its_output():
    """Computes the gradient in the memory of the op's own output."""
    return _exponential("backward_reuses_its_output", write=True)


@specimen((MATRIX,), skips=ONCE, twin_of="backward_reuses_its_output")
def backward_leaves_its_output():
    """Computes the gradient in memory of its own."""
    return _exponential("backward_leaves_its_output", write=False)


def _with_total(name, add_up):
    """A sine whose backward adds up in a buffer that the forward made."""

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.total = torch.zeros_like(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        ctx.total = add_up(ctx.total, grad * x.cos())
        return ctx.total.clone()

    return _op(name, torch.sin, backward, setup)


@specimen(
    (MATRIX,),
    expected={"backward.intact": "backward-not-repeatable"},
    skips={"gradcheck.backward": "nondeterministic"},
)
def backward_adds_to_its_last():
    """Adds to the gradient of the backward before it."""
    return _with_total("backward_adds_to_its_last", lambda total, gradient: total + gradient)


@specimen((MATRIX,), twin_of="backward_adds_to_its_last")
def backward_starts_from_zero():
    """Starts from zero each time."""
    return _with_total("backward_starts_from_zero", lambda total, gradient: gradient)


def _with_workspace(name, copy):
    spaces = {}
    lock = threading.Lock()

    def kernel(x, grad):
        key = (x.shape, x.stride(), x.dtype)
        with lock:
            space = spaces.setdefault(key, torch.empty_like(x))
            torch.mul(x.cos(), grad, out=space)
            return space.clone() if copy else space

    library = registry.library()
    library.define(f"{name}_gradient(Tensor x, Tensor grad) -> Tensor")
    library.impl(f"{name}_gradient", torch.no_grad()(kernel), "CPU")
    torch.library.register_fake(
        f"zoo::{name}_gradient", lambda x, grad: torch.empty_like(x), lib=library
    )

    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return getattr(torch.ops.zoo, f"{name}_gradient")(*ctx.saved_tensors, grad)

    return _op(name, torch.sin, backward, _save_input)


@specimen((MATRIX,), expected={"backward.intact": "gradient-overwritten"}, skips=ONCE)
def backward_returns_its_workspace():
    """Returns a workspace that the next backward writes to."""
    return _with_workspace("backward_returns_its_workspace", copy=False)


@specimen((MATRIX,), skips=ONCE, twin_of="backward_returns_its_workspace")
def backward_copies_its_workspace():
    """Returns a copy of its workspace."""
    return _with_workspace("backward_copies_its_workspace", copy=True)
