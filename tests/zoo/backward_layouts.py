"""Backwards that take every grad_output for contiguous."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _sine(name, gradient):
    """A sine; `gradient(x, grad)` is the kernel of an op that its backward calls."""
    library = registry.library()
    library.define(f"{name}_gradient(Tensor x, Tensor grad) -> Tensor")
    library.impl(f"{name}_gradient", torch.no_grad()(gradient), "CPU")
    torch.library.register_fake(
        f"zoo::{name}_gradient", lambda x, grad: torch.empty_like(x), lib=library
    )

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return x.sin()

    sine.register_fake(lambda x: torch.empty_like(x))

    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return getattr(torch.ops.zoo, f"{name}_gradient")(x, grad)

    sine.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return sine


def _read_as_contiguous(grad):
    """What a kernel reads that takes a pointer and a number of elements."""
    return grad.as_strided(grad.shape, torch.empty(grad.shape, device="meta").stride())


ONCE = {"gradcheck.double": "no-second-order"}


@specimen(
    (MATRIX,),
    expected={
        "backward.layouts": "grad-output-layout-ignored",
        "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
    },
    skips=ONCE,
)
def backward_reads_by_pointer():
    """The kernel of the backward reads the memory of grad_output and not its strides."""
    return _sine("backward_reads_by_pointer", lambda x, grad: x.cos() * _read_as_contiguous(grad))


@specimen((MATRIX,), expected={"backward.layouts": "grad-output-layout-ignored"}, skips=ONCE)
def backward_reads_rows_by_pointer():
    """The kernel looks whether rows are dense, and not whether they follow one another."""

    def gradient(x, grad):
        dense = grad if grad.stride(-1) == 1 else grad.contiguous()
        return x.cos() * _read_as_contiguous(dense)

    return _sine("backward_reads_rows_by_pointer", gradient)


@specimen(
    (MATRIX,),
    expected={"backward.layouts": "grad-output-layout-refused"},
    skips=ONCE,
)
def backward_takes_a_view():
    """The backward calls view() on grad_output, which needs contiguous memory."""
    return _sine(
        "backward_takes_a_view", lambda x, grad: (x.cos().view(-1) * grad.view(-1)).view(x.shape)
    )


@specimen(
    (MATRIX,),
    skips=ONCE,
    twin_of=(
        "backward_reads_by_pointer",
        "backward_reads_rows_by_pointer",
        "backward_takes_a_view",
    ),
)
def backward_makes_contiguous():
    """The backward makes grad_output contiguous before its kernel reads the memory."""
    return _sine(
        "backward_makes_contiguous",
        lambda x, grad: x.cos() * _read_as_contiguous(grad.contiguous()),
    )
