"""Second orders that are lost in silence."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)
ONCE = {"gradcheck.double": "no-second-order"}


def _op(name, kernel, backward):
    """An op of one tensor, which is saved for the backward."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    op.register_autograd(backward, setup_context=setup)
    return op


def _without_grad(ctx, grad):
    with torch.no_grad():
        return grad * ctx.saved_tensors[0].cos()


@specimen((MATRIX,), expected={"backward.second_order": "second-order-lost"}, skips=ONCE)
def backward_under_no_grad():
    """The backward computes under no_grad, so that its result is a constant to autograd."""
    return _op("backward_under_no_grad", torch.sin, _without_grad)


@specimen((MATRIX,), skips=ONCE, twin_of="backward_under_no_grad")
def backward_once_differentiable():
    """The same backward says that it can be differentiated once only."""
    once = torch.autograd.function.once_differentiable(_without_grad)
    return _op("backward_once_differentiable", torch.sin, once)


@specimen((MATRIX,), skips=ONCE)
def backward_of_an_op_that_refuses():
    """Correct: the backward calls an op without a formula, which refuses to be differentiated."""

    @torch.library.custom_op("zoo::sine_gradient_that_refuses", mutates_args=())
    def gradient(x: Tensor, grad: Tensor) -> Tensor:
        return grad * x.cos()

    gradient.register_fake(lambda x, grad: torch.empty_like(x))
    return _op(
        "backward_of_an_op_that_refuses",
        torch.sin,
        lambda ctx, grad: gradient(*ctx.saved_tensors, grad),
    )


@specimen((MATRIX,), skips=ONCE)
def backward_of_a_kernel_without_autograd():
    """Correct: autograd warns that it passes by what the backward calls."""
    library = registry.library()
    name = "sine_gradient_for_the_cpu"
    library.define(f"{name}(Tensor x, Tensor grad) -> Tensor")
    library.impl(name, torch.no_grad()(lambda x, grad: grad * x.cos()), "CPU")
    torch.library.register_fake(f"zoo::{name}", lambda x, grad: torch.empty_like(x), lib=library)
    return _op(
        "backward_of_a_kernel_without_autograd",
        torch.sin,
        lambda ctx, grad: torch.ops.zoo.sine_gradient_for_the_cpu(*ctx.saved_tensors, grad),
    )


def _product(name, second):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, w: Tensor) -> Tensor:
        return x * w

    product.register_fake(lambda x, w: x * w)

    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, second(grad, x)

    product.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return product


@specimen((MATRIX, MATRIX), expected={"backward.second_order": "second-order-lost"}, skips=ONCE)
def one_gradient_detached():
    """One gradient can be differentiated again; the other is cut off without a word."""
    return _product("one_gradient_detached", lambda grad, x: grad.detach() * x.detach())


@specimen((MATRIX, MATRIX), twin_of="one_gradient_detached")
def no_gradient_detached():
    """Both gradients can be differentiated again."""
    return _product("no_gradient_detached", lambda grad, x: grad * x)


@specimen((MATRIX,), expected={"gradcheck.double": "second-order-gradient-mismatch"})
def intermediate_kept_for_the_backward():
    """Saves the cosine that the kernel computed, which is a constant to the second order."""

    @torch.library.custom_op("zoo::intermediate_kept_for_the_backward", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return x.sin()

    sine.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0].detach().cos())

    sine.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0], setup_context=setup)
    return sine


@specimen((MATRIX,), twin_of="intermediate_kept_for_the_backward")
def intermediate_computed_again():
    """Saves the input, and computes the cosine in the backward."""
    return _op(
        "intermediate_computed_again",
        torch.sin,
        lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
    )
