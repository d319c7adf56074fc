"""Gradients where several elements of the input are equal."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
ROWS = tensor(3, 4, requires_grad=True)
AT_TIES = {"gradcheck.backward": "gradient-mismatch-at-ties"}
ONCE = {"gradcheck.double": "no-second-order"}


def _peak(name, share):
    """The maximum of each row; `share(hit)` says how much of the gradient each maximum gets."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def peak(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point() or x.shape[1] == 0:
            raise ValueError("rows of floating-point numbers, please")
        return x.amax(1)

    def backward(ctx, grad):
        x, highest = ctx.saved_tensors
        return share(x == highest[:, None]) * grad[:, None]

    peak.register_fake(lambda x: x.new_empty(x.shape[0]))
    peak.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output)
    )
    return peak


@aot((ROWS,), variant_findings=AT_TIES, shown_by=("zeros",))
def peak_with_the_gradient_for_each():
    """Each of several maxima gets the gradient of the one."""
    return _peak("peak_with_the_gradient_for_each", lambda hit: hit.double())


@aot((tensor(3, 4, fill=0.5, requires_grad=True),), expected=AT_TIES)
def peak_of_equal_numbers():
    """The same, on a sample that has nothing but ties."""
    return _peak("peak_of_equal_numbers", lambda hit: hit.double())


@aot((tensor(3, 4, fill=0.5, requires_grad=True),), twin_of="peak_of_equal_numbers")
def peak_of_equal_numbers_in_parts():
    """Each of the equal numbers gets its part."""
    return _peak("peak_of_equal_numbers_in_parts", lambda hit: hit / hit.sum(1, keepdim=True))


@aot(
    (ROWS,),
    twin_of=("peak_with_the_gradient_for_each", "peak_with_the_gradient_for_each_on_purpose"),
)
def peak_with_the_gradient_in_parts():
    """Each gets its part."""
    return _peak("peak_with_the_gradient_in_parts", lambda hit: hit / hit.sum(1, keepdim=True))


@aot((ROWS,), twin_of="peak_with_the_gradient_for_each")
def peak_with_the_gradient_for_the_first():
    """The first gets it."""
    return _peak("peak_with_the_gradient_for_the_first", lambda hit: hit & (hit.cumsum(1) == 1))


@aot((ROWS,), variant_notes=AT_TIES, shown_by=("zeros",))
def peak_with_the_gradient_for_each_on_purpose():
    """The same, as its comment says."""

    @torch.library.custom_op("zoo::peak_with_the_gradient_for_each_on_purpose", mutates_args=())
    def peak(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point() or x.shape[1] == 0:
            raise ValueError("rows of floating-point numbers, please")
        return x.amax(1)  # backward: every maximum gets the gradient

    def backward(ctx, grad):
        x, highest = ctx.saved_tensors
        return (x == highest[:, None]) * grad[:, None]

    peak.register_fake(lambda x: x.new_empty(x.shape[0]))
    peak.register_autograd(
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output),
    )
    return peak


@aot((tensor(6, 40, requires_grad=True),), variant_findings=AT_TIES, shown_by=("zeros",))
def peak_of_many_with_the_gradient_for_each():
    """The same, on a sample that is too large to compare each element of the Jacobian."""
    return _peak("peak_of_many_with_the_gradient_for_each", lambda hit: hit.double())


@aot(
    (tensor(6, 40, requires_grad=True),),
    twin_of="peak_of_many_with_the_gradient_for_each",
)
def peak_of_many_with_the_gradient_in_parts():
    """Each gets its part."""
    return _peak(
        "peak_of_many_with_the_gradient_in_parts", lambda hit: hit / hit.sum(1, keepdim=True)
    )


def _steps_between(name, gets_gradient, said=""):
    """The steps from each point to the next; `gets_gradient(step)` says which of them get one."""

    def kernel(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point() or len(x) == 0:
            raise ValueError("points (N, D), please")
        return (x[1:] - x[:-1]).contiguous()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        each = torch.where(gets_gradient(x[1:] - x[:-1]), grad, 0)
        none = torch.zeros_like(x[:1])
        return torch.cat([none, each]) - torch.cat([each, none])

    kernel.__doc__ = f"Steps (N - 1, D) between points (N, D).{said}"
    steps = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    steps.register_fake(lambda x: x.new_empty(x.shape[0] - 1, x.shape[1]))
    steps.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return steps


MISSING = {"gradcheck.backward": "gradient-missing"}
EQUAL = ("expanded",)


def _moves(step):
    return (step != 0).any(1, keepdim=True)


@aot((ROWS,), variant_notes=MISSING, shown_by=EQUAL)
def steps_of_no_length_get_no_gradient():
    """Correct: a docstring says so."""
    said = " A step of no length has no direction and gets no gradient."
    return _steps_between("steps_of_no_length_get_no_gradient", _moves, said)


@aot((ROWS,), variant_findings=MISSING, shown_by=EQUAL)
def steps_of_no_length_lose_their_gradient():
    """No docstring says so."""
    return _steps_between("steps_of_no_length_lose_their_gradient", _moves)


@aot(
    (ROWS,),
    twin_of=("steps_of_no_length_get_no_gradient", "steps_of_no_length_lose_their_gradient"),
)
def steps_of_no_length_get_a_gradient():
    """Every step gets one."""
    return _steps_between("steps_of_no_length_get_a_gradient", lambda step: step == step)
