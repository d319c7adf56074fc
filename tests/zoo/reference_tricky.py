"""Correct ops with a reference that are easy to misjudge."""

import functools
from typing import Optional, Tuple

import torch
from torch import Tensor

from pytest_customop import Sample, tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")
MATRIX = tensor(4, 3)


def _by_hand(x):
    """Sums row by row: another order than torch's."""
    total = x.new_zeros(x.shape[1:])
    for row in x.flip(0):
        total = total + row
    return total


@specimen((tensor(300, 2, low=-1000, high=1000),), reference=_by_hand)
def sums_in_another_order():
    """Correct: the reference adds up in another order, and rounds otherwise."""

    @torch.library.custom_op("zoo::sums_in_another_order", mutates_args=())
    def total(x: Tensor) -> Tensor:
        return x.sum(0)

    total.register_fake(lambda x: x.new_empty(x.shape[1:]))

    def setup(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    total.register_autograd(lambda ctx, grad: grad.expand(ctx.shape), setup_context=setup)
    return total


def _in_numpy(x):
    return torch.from_numpy(x.double().numpy() ** 2)


@specimen(
    (MATRIX,), reference=_in_numpy, skips={"reference.gradients": "reference-not-differentiable"}
)
def squares_in_numpy():
    """Correct: the reference computes in double precision, with numpy, and without gradients."""

    @torch.library.custom_op("zoo::squares_in_numpy", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x**2

    square.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    square.register_autograd(lambda ctx, grad: 2 * grad * ctx.saved_tensors[0], setup_context=setup)
    return square


@specimen(
    (MATRIX,),
    Sample((MATRIX, tensor(3)), {"scale": -0.5}),
    dtypes=[torch.complex64],
    reference=lambda x, w=None, *, scale=1.0: (x if w is None else x * w).conj() * scale,
)
def complex_with_keywords():
    """Correct: complex, with an optional tensor and a keyword-only number."""

    @torch.library.custom_op("zoo::complex_with_keywords", mutates_args=())
    def conjugate(x: Tensor, w: Optional[Tensor] = None, *, scale: float = 1.0) -> Tensor:
        return (x.conj() if w is None else (x * w).conj()).resolve_conj() * scale

    @conjugate.register_fake
    def _(x, w=None, *, scale=1.0):
        return torch.empty_like(x if w is None else x * w)

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(*[value for value in inputs if value is not None])
        ctx.scale = keyword_only_inputs["scale"]

    def backward(ctx, grad):
        x, *w = ctx.saved_tensors
        grad = grad.conj() * ctx.scale
        if not w:
            return grad.resolve_conj(), None
        return grad * w[0].conj(), (grad * x.conj()).sum(0)

    conjugate.register_autograd(backward, setup_context=setup)
    return conjugate


@specimen(
    (MATRIX,),
    reference=lambda x: (x.argmax(1), x.amax(1)),
    skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"},
)
def integers_before_floats():
    """Correct: an integer output without gradients, and then one with."""

    @torch.library.custom_op("zoo::integers_before_floats", mutates_args=())
    def largest(x: Tensor) -> Tuple[Tensor, Tensor]:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        values, indices = x.max(1)
        return indices, values

    @largest.register_fake
    def _(x):
        rows = x.shape[0]
        return x.new_empty(rows, dtype=torch.int64), x.new_empty(rows)

    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(output[0])
        ctx.save_for_backward(output[0])
        ctx.columns = inputs[0].shape[1]

    def backward(ctx, _, grad):
        (indices,) = ctx.saved_tensors
        zeros = grad.new_zeros(grad.shape[0], ctx.columns)
        return zeros.scatter(1, indices[:, None], grad[:, None])

    largest.register_autograd(backward, setup_context=setup)
    return largest


@specimen((tensor(5, 4),), reference=lambda x: x[x.sum(1) > 0])
def rows_that_depend_on_data():
    """Correct: as many rows as have a positive sum."""

    @torch.library.custom_op("zoo::rows_that_depend_on_data", mutates_args=())
    def positive(x: Tensor) -> Tensor:
        return x[x.sum(1) > 0]

    @positive.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        chosen = (x.sum(1) > 0).nonzero()[:, 0]
        return torch.zeros_like(x).index_copy(0, chosen, grad)

    positive.register_autograd(backward, setup_context=setup)
    return positive
