"""Forwards that keep what the backward needs in the wrong place."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _op(name, kernel, setup, backward):
    """An op of one tensor."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(backward, setup_context=setup)
    return op


ONCE = {"gradcheck.double": "no-second-order"}
once = torch.autograd.function.once_differentiable


def _sine(name, setup, saved):
    return _op(name, torch.sin, setup, once(lambda ctx, grad: grad * saved(ctx).cos()))


@specimen((MATRIX,), expected={"backward.saved": "saved-tensor-stale"}, skips=ONCE)
def input_kept_on_ctx():
    """The input is an attribute of ctx: writing to it before the backward goes unnoticed."""

    def setup(ctx, inputs, output):
        ctx.x = inputs[0]

    return _sine("input_kept_on_ctx", setup, lambda ctx: ctx.x)


@specimen((MATRIX,), expected={"backward.saved": "saved-tensor-stale"}, skips=ONCE)
def output_kept_on_ctx():
    """A detached output is an attribute of ctx, and not noticed when it is written to."""

    def setup(ctx, inputs, output):
        ctx.y = output.detach()

    return _op("output_kept_on_ctx", torch.exp, setup, once(lambda ctx, grad: grad * ctx.y))


@specimen((MATRIX,), twin_of="input_kept_on_ctx", skips=ONCE)
def input_saved():
    """The input is saved, and autograd notices what is written to it."""

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    return _sine("input_saved", setup, lambda ctx: ctx.saved_tensors[0])


@specimen((MATRIX,), twin_of="output_kept_on_ctx", skips=ONCE)
def output_saved():
    """The output is saved."""
    return _op(
        "output_saved",
        torch.exp,
        lambda ctx, inputs, output: ctx.save_for_backward(output),
        once(lambda ctx, grad: grad * ctx.saved_tensors[0]),
    )


@specimen((MATRIX,), skips=ONCE)
def copy_kept_on_ctx():
    """Correct: a copy of the input is an attribute of ctx; nobody else writes to it."""

    def setup(ctx, inputs, output):
        ctx.x = inputs[0].clone()

    return _sine("copy_kept_on_ctx", setup, lambda ctx: ctx.x)


@specimen(
    (MATRIX,),
    expected={"backward.saved": "backward-state-shared", "values.threads": "thread-unsafe"},
    skips=ONCE,
)
def input_kept_in_a_global():
    """The input of the last call is kept for the backward of whichever."""
    last = []

    def setup(ctx, inputs, output):
        last[:] = [inputs[0].detach().clone()]

    return _sine("input_kept_in_a_global", setup, lambda ctx: last[0])


@specimen((MATRIX,), twin_of="input_kept_in_a_global", skips=ONCE)
def input_kept_by_call():
    """Every call keeps its own input."""

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    return _sine("input_kept_by_call", setup, lambda ctx: ctx.saved_tensors[0])


@specimen((MATRIX,), expected={"backward.freed": "tensors-kept-alive"})
def output_in_a_cycle():
    """The output is an attribute of ctx, and so refers to itself through its graph."""

    def setup(ctx, inputs, output):
        ctx.like = output

    return _op(
        "output_in_a_cycle", lambda x: x * 2, setup, lambda ctx, grad: 2 * grad.expand_as(ctx.like)
    )


@specimen((MATRIX,), twin_of="output_in_a_cycle")
def shape_kept_on_ctx():
    """The shape is all that is kept."""

    def setup(ctx, inputs, output):
        ctx.shape = output.shape

    return _op(
        "shape_kept_on_ctx", lambda x: x * 2, setup, lambda ctx, grad: 2 * grad.expand(ctx.shape)
    )
