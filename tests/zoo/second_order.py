"""Formulas that are right once and wrong twice."""

import functools
from typing import Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


def _cube_gradient(name, factor):
    """The op that the backward of a cube calls, and its formula: 6x is right."""

    @torch.library.custom_op(f"zoo::{name}_gradient", mutates_args=())
    def gradient(x: Tensor, grad: Tensor) -> Tensor:
        return 3 * x * x * grad

    gradient.register_fake(lambda x, grad: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, twice):
        x, grad = ctx.saved_tensors
        return factor * x * grad * twice, 3 * x * x * twice

    gradient.register_autograd(backward, setup_context=setup)
    return gradient


def _cube(name, gradient):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x * x * x

    cube.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    cube.register_autograd(
        lambda ctx, grad: gradient(*ctx.saved_tensors, grad), setup_context=setup
    )
    return cube


@specimen((MATRIX,), expected={"gradcheck.double": "second-order-gradient-mismatch"})
def cube_with_a_wrong_second_formula():
    """The op that the backward calls has a formula with a wrong factor."""
    name = "cube_with_a_wrong_second_formula"
    return _cube(name, _cube_gradient(name, factor=3))


@specimen((MATRIX,), expected={"gradcheck.double": "second-order-gradient-mismatch"})
def cube_with_a_detached_backward():
    """The backward detaches the input, so that gradients of gradients miss a term."""
    return _cube("cube_with_a_detached_backward", lambda x, grad: 3 * x.detach() ** 2 * grad)


@specimen((MATRIX,), twin_of="cube_with_a_wrong_second_formula")
def cube():
    """The op that the backward calls has a right formula of its own."""
    return _cube("cube", _cube_gradient("cube", factor=6))


@specimen((MATRIX,), twin_of="cube_with_a_detached_backward")
def cube_of_plain_operations():
    """The backward is plain torch, all of it differentiable."""
    return _cube("cube_of_plain_operations", lambda x, grad: 3 * x**2 * grad)


@specimen((MATRIX,), skips={"gradcheck.double": "no-second-order"})
def cube_without_a_second_formula():
    """Right: the op that the backward calls has no formula, so there is no second order to check."""

    @torch.library.custom_op("zoo::cube_gradient_alone", mutates_args=())
    def gradient(x: Tensor, grad: Tensor) -> Tensor:
        return 3 * x * x * grad

    gradient.register_fake(lambda x, grad: torch.empty_like(x))
    return _cube("cube_without_a_second_formula", gradient)


PROMISED = """The squared log-sum-exp of each row, and the log-sum-exp.

x: (N, D), float32 or float64
The first result is twice differentiable in x; the second carries no gradient.
"""


def _squared_norms(name, norm_of, said=PROMISED):
    """Squares of sums of exponentials, and the sums; `norm_of(x, saved)` is what the backward takes."""

    def norms(x: Tensor) -> Tuple[Tensor, Tensor]:
        if x.dim() != 2 or 0 in x.shape or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a matrix, please")
        norm = torch.logsumexp(x, 1)
        return norm * norm, norm

    norms.__doc__ = said
    norms = torch.library.custom_op(f"zoo::{name}", norms, mutates_args=())
    norms.register_fake(lambda x: (x.new_empty(x.shape[0]), x.new_empty(x.shape[0])))

    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    def backward(ctx, grad, _):
        x, saved = ctx.saved_tensors
        norm = norm_of(x, saved)
        return (2 * grad * norm)[:, None] * (x - norm[:, None]).exp()

    norms.register_autograd(backward, setup_context=setup)
    return norms


MARKED = (tensor(3, 5, low=-2, high=2, requires_grad=True),)


@registry.specimen(MARKED, notes={"gradcheck.double": "second-order-gradient-mismatch"})
def square_of_a_marked_output():
    """Correct to first order: the backward uses an output that is marked as not differentiable."""
    return _squared_norms("square_of_a_marked_output", lambda x, saved: saved, said=None)


@specimen(MARKED, expected={"gradcheck.double": "second-order-gradient-mismatch"})
def norm_that_is_a_constant_twice():
    """The backward uses an output that is marked as not differentiable; second order is promised."""
    return _squared_norms("norm_that_is_a_constant_twice", lambda x, saved: saved)


@specimen(MARKED, twin_of="norm_that_is_a_constant_twice")
def norm_that_is_computed_again():
    """The backward computes it again."""
    return _squared_norms("norm_that_is_computed_again", lambda x, saved: x.logsumexp(1))
