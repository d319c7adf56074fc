"""Backwards with caches of their own."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")
STALE = {"backward.stale": "stale-gradient"}
PRODUCT = (tensor(4, 3), tensor(3, 5))


def _times(x, y):
    """A matrix product that autocast leaves in its dtype."""
    return (x.unsqueeze(2) * y).sum(1)


def _product(name, key):
    """A matrix product whose backward keeps transposed weights; `key` says which belong to a tensor."""
    kept: dict = {}

    @torch.library.custom_op(f"zoo::{name}_back", mutates_args=())
    def back(grad: Tensor, weight: Tensor) -> Tensor:
        found = kept.get(key(weight))
        if found is None:
            for old in list(kept)[:-8]:
                kept.pop(old, None)
            # The tensor stays alive with its entry, so that no other one gets its address.
            found = kept[key(weight)] = weight, weight.detach().t().clone()
        return _times(grad, found[1])

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor, weight: Tensor) -> Tensor:
        return _times(x, weight)

    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return back(grad, weight), _times(x.t(), grad)

    back.register_fake(lambda grad, weight: grad.new_empty(grad.shape[0], weight.shape[0]))
    back.register_autograd(
        lambda ctx, grad: (
            _times(grad, ctx.saved_tensors[1]),
            _times(grad.t(), ctx.saved_tensors[0]),
        ),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    op.register_fake(lambda x, weight: x.new_empty(x.shape[0], weight.shape[1]))
    op.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return op


@specimen(PRODUCT, expected=STALE)
def transposed_by_address():
    """The backward keeps transposed weights by their address, whatever is written there since."""
    return _product("transposed_by_address", lambda x: (x.data_ptr(), x.shape, x.stride(), x.dtype))


@specimen(PRODUCT, twin_of="transposed_by_address")
def transposed_by_version():
    """The same with the number of writes in the key."""

    def key(x):
        version = object() if x.is_inference() else x._version
        return x.data_ptr(), version, x.shape, x.stride(), x.dtype

    return _product("transposed_by_version", key)


@specimen(PRODUCT)
def transposed_anew():
    """Correct: transposed at each call; the key is a new object."""
    return _product("transposed_anew", lambda x: object())
