"""Backwards of ops with several outputs, of which a loss uses some."""

import functools
from typing import Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _sine_and_square(name, backward, materialize=False):
    """Two outputs; `backward(x, grad_sine, grad_square)` is the formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tuple[Tensor, Tensor]:
        return x.sin(), x * x

    operator.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(materialize)

    operator.register_autograd(
        lambda ctx, *grads: backward(*ctx.saved_tensors, *grads), setup_context=setup
    )
    return operator


@specimen(
    (MATRIX,),
    expected={"backward.unused": "unused-output-mishandled"},
    skips={"gradcheck.backward": "no-float64"},
)
def backward_counts_on_every_output():
    """Asks for None in place of zeros, and computes with it."""
    return _sine_and_square(
        "backward_counts_on_every_output", lambda x, sine, square: sine * x.cos() + square * 2 * x
    )


@specimen(
    (MATRIX,),
    expected={
        "backward.unused": "unused-output-mishandled",
        "gradcheck.backward": "gradient-missing",
    },
)
def backward_drops_both_for_one():
    """Where one output is not used, the gradient of the other is dropped too."""

    def backward(x, sine, square):
        if sine is None or square is None:
            return None
        return sine * x.cos() + square * 2 * x

    return _sine_and_square("backward_drops_both_for_one", backward)


@specimen((MATRIX,), twin_of=("backward_counts_on_every_output", "backward_drops_both_for_one"))
def backward_takes_none_for_zeros():
    """Each grad_output that is None counts as zeros."""

    def backward(x, sine, square):
        gradient = torch.zeros_like(x)
        if sine is not None:
            gradient = gradient + sine * x.cos()
        return gradient if square is None else gradient + square * 2 * x

    return _sine_and_square("backward_takes_none_for_zeros", backward)


@specimen((MATRIX,), twin_of=("backward_counts_on_every_output", "backward_drops_both_for_one"))
def backward_is_given_zeros():
    """Leaves it to autograd to make zeros of the grad_outputs that are not there."""
    return _sine_and_square(
        "backward_is_given_zeros",
        lambda x, sine, square: sine * x.cos() + square * 2 * x,
        materialize=True,
    )


def _with_mask(name, mark):
    """A relu, and a float mask of where it let something through."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def relu(x: Tensor) -> Tuple[Tensor, Tensor]:
        return x.relu(), (x > 0).to(x.dtype)

    relu.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(output[1])
        if mark:
            ctx.mark_non_differentiable(output[1])

    def backward(ctx, grad, grad_mask):
        (mask,) = ctx.saved_tensors
        return grad * mask if mark else (grad + grad_mask) * mask

    relu.register_autograd(backward, setup_context=setup)
    return relu


@specimen(
    (MATRIX,),
    expected={
        "gradcheck.backward": "gradient-of-a-step-function",
        "gradcheck.double": "second-order-gradient-mismatch",
    },
)
def mask_with_a_gradient():
    """A mask of zeros and ones is not marked as non-differentiable, and gets a gradient."""
    return _with_mask("mask_with_a_gradient", mark=False)


@specimen((MATRIX,), twin_of="mask_with_a_gradient")
def mask_without_a_gradient():
    """The mask is marked as non-differentiable."""
    return _with_mask("mask_without_a_gradient", mark=True)
