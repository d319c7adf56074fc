"""Ops that leave out NaN, and their gradients where some numbers are missing."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
GRADIENT = {"gradcheck.backward": "gradient-mismatch"}
GAPS = torch.tensor([[1.5, torch.nan, -0.5], [2.0, 0.25, torch.nan], [0.5, 1.0, 3.0]])
WHOLE = torch.tensor([[1.5, 0.75, -0.5], [2.0, 0.25, 1.25], [0.5, 1.0, 3.0]])


def _centred(name, counted):
    """Numbers without the mean of their row; `counted(x)` of each row are divided by in the backward."""

    def kernel(x: Tensor) -> Tensor:
        """Centres the rows of the readings `x` (N, T).

        NaN readings are missing: they stay NaN, and no mean has them.
        """
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return (x - x.nanmean(1, keepdim=True)).contiguous()

    centred = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    centred.register_fake(lambda x: x.new_empty(x.shape))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gone = x.isnan()
        grad = grad.masked_fill(gone, 0)
        count = counted(x).clamp(min=1)
        return (grad - grad.sum(1, keepdim=True) / count).masked_fill(gone, 0)

    centred.register_autograd(backward, setup_context=setup_context)
    return centred


def _all(x):
    return torch.full_like(x[:, :1], x.shape[1])


def _present(x):
    return (~x.isnan()).sum(1, keepdim=True)


@aot((GAPS,), expected=GRADIENT)
def divides_by_all_readings():
    """The backward divides by the number of readings, missing ones included."""
    return _centred("divides_by_all_readings", _all)


@aot((GAPS,), twin_of="divides_by_all_readings")
def divides_by_readings_that_are_there():
    """The backward divides by the number that the forward divides by."""
    return _centred("divides_by_readings_that_are_there", _present)


@aot((WHOLE,), variant_findings=GRADIENT, shown_by="x.has.nan")
def divides_by_all_of_whole_readings():
    """The same, where the sample has all readings."""
    return _centred("divides_by_all_of_whole_readings", _all)


@aot((WHOLE,), twin_of="divides_by_all_of_whole_readings")
def divides_by_whole_readings_that_are_there():
    """The same, divided by the number that are there."""
    return _centred("divides_by_whole_readings_that_are_there", _present)


@aot((GAPS,), skips=dict.fromkeys(("gradcheck.backward", "gradcheck.double"), "not-finite"))
def running_products_with_gaps():
    """Correct: NaN makes what comes behind it NaN, and gradients are NaN too."""

    @torch.library.custom_op("zoo::running_products_with_gaps", mutates_args=())
    def products(x: Tensor) -> Tensor:
        """Running products of `x` (N, T); a NaN in x makes the products from there on NaN."""
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        return x.cumprod(1)

    products.register_fake(lambda x: x.new_empty(x.shape))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(x.cumprod(1), x, grad, create_graph=True)

    products.register_autograd(backward, setup_context=setup_context)
    return products
