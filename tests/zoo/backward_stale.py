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
    if x.shape[1:] != y.shape[:1] or x.dtype != y.dtype:
        raise ValueError("matrices of one dtype that can be multiplied, please")
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


def _chosen(name, key):
    """Chosen rows; the backward keeps how often each row was chosen; `key` as in `_product`."""
    kept: dict = {}

    @torch.library.custom_op(f"zoo::{name}_back", mutates_args=())
    def back(grad: Tensor, rows: Tensor, count: int) -> Tensor:
        found = kept.get(key(rows))
        if found is None:
            for old in list(kept)[:-8]:
                kept.pop(old, None)
            found = kept[key(rows)] = rows, torch.nn.functional.one_hot(rows, count).to(grad.dtype)
        return _times(found[1].t(), grad)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor, rows: Tensor) -> Tensor:
        return x[rows]

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.count = inputs[0].shape[0]

    back.register_fake(lambda grad, rows, count: grad.new_empty(count, grad.shape[1]))
    back.register_autograd(
        lambda ctx, grad: (grad[ctx.saved_tensors[0]], None, None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    )
    op.register_fake(lambda x, rows: x.new_empty(rows.shape[0], x.shape[1]))
    op.register_autograd(
        lambda ctx, grad: (back(grad, ctx.saved_tensors[0], ctx.count), None), setup_context=setup
    )
    return op


CHOSEN = (tensor(4, 3), torch.tensor([2, 0, 0, 3, 1]))


@specimen(CHOSEN, expected=STALE)
def positions_kept_by_address():
    """The backward keeps what it derives from integers by their address."""
    return _chosen("positions_kept_by_address", lambda x: (x.data_ptr(), x.shape, x.stride()))


@specimen(CHOSEN, twin_of="positions_kept_by_address")
def positions_kept_by_version():
    """The same with the number of writes in the key."""

    def key(x):
        version = object() if x.is_inference() else x._version
        return x.data_ptr(), version, x.shape, x.stride()

    return _chosen("positions_kept_by_version", key)
