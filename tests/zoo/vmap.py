"""Ops whose vmap rule is not what a loop over the batch gives."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")
since = registry.since
ROWS = (tensor(4, 3), tensor(3))


def _weighted(name, rule):
    """Rows times weights, added up; `rule` gets the op and what a vmap rule gets."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def weighted(x: Tensor, w: Tensor) -> Tensor:
        if (x.shape[-1:], x.dtype) != (w.shape, w.dtype):
            raise ValueError("one weight an element of a row, please, and of one dtype")
        return (x * w).sum(-1)

    weighted.register_fake(lambda x, w: x.new_empty(x.shape[:-1]))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad_w = (grad[..., None] * x).reshape(-1, *w.shape[-1:]).sum(0)
        return grad[..., None] * w, grad_w.expand(w.shape)

    weighted.register_autograd(backward, setup_context=setup)
    if hasattr(torch.library, "register_vmap"):
        weighted.register_vmap(lambda info, in_dims, x, w: rule(weighted, info, in_dims, x, w))
    return weighted


def _loop(op, info, in_dims, x, w):
    """What is always right."""

    def selected(tensor, dim, index):
        return tensor if dim is None else tensor.select(dim, index)

    outputs = [
        op(selected(x, in_dims[0], index), selected(w, in_dims[1], index))
        for index in range(info.batch_size)
    ]
    return torch.stack(outputs), 0


def _batch_first(op, info, in_dims, x, w):
    """Right if the batch is the first dim."""
    if in_dims[1] is None:
        return op(x, w), 0
    return (x * w.unsqueeze(-2)).sum(-1), 0


@specimen(ROWS, expected={"vmap.loop": since("2.5", "vmap-mismatch")})
def vmap_rule_ignores_in_dims():
    """The vmap rule takes the batch to be the first dim, wherever it is."""

    def rule(op, info, in_dims, x, w):
        if in_dims[0] not in (None, 0):
            x = x.reshape(info.batch_size, 4, 3)
        if in_dims[1] not in (None, 0):
            w = w.reshape(info.batch_size, 3)
        return _batch_first(op, info, in_dims, x, w)

    return _weighted("vmap_rule_ignores_in_dims", rule)


@specimen(ROWS, expected={"vmap.loop": since("2.5", "vmap-mismatch")})
def vmap_rule_of_shared_rows():
    """For rows that are not batched, the vmap rule takes the batch of weights to be the first dim."""

    def rule(op, info, in_dims, x, w):
        if in_dims[0] is None:
            w = w.reshape(info.batch_size, 1, 3)
            return (x * w).sum(-1), 0
        return _loop(op, info, in_dims, x, w)

    return _weighted("vmap_rule_of_shared_rows", rule)


@specimen(ROWS, expected={"vmap.loop": since("2.5", "vmap-raises")})
def vmap_rule_of_one_dim():
    """The vmap rule takes the batch dim of the weights to be that of the rows."""

    def rule(op, info, in_dims, x, w):
        at = in_dims[1] if in_dims[0] is None or in_dims[1] is None else in_dims[0]
        return _loop(op, info, (in_dims[0], at), x, w)

    return _weighted("vmap_rule_of_one_dim", rule)


@specimen(ROWS, expected={"vmap.loop": since("2.5", "vmap-raises")})
def vmap_rule_wants_all_batched():
    """The vmap rule raises unless every tensor is batched."""

    def rule(op, info, in_dims, x, w):
        dims = (in_dims[0] + 0, in_dims[1] + 0)
        return _loop(op, info, dims, x, w)

    return _weighted("vmap_rule_wants_all_batched", rule)


@specimen(ROWS, expected={"vmap.loop": since("2.5", "vmap-mismatch")})
def vmap_rule_loses_gradients():
    """The vmap rule computes on detached tensors."""

    def rule(op, info, in_dims, x, w):
        return _loop(op, info, in_dims, x.detach(), w)

    return _weighted("vmap_rule_loses_gradients", rule)


@specimen(
    ROWS,
    twin_of=(
        "vmap_rule_ignores_in_dims",
        "vmap_rule_of_shared_rows",
        "vmap_rule_of_one_dim",
        "vmap_rule_wants_all_batched",
        "vmap_rule_loses_gradients",
    ),
)
def vmap_rule_is_right():
    """The vmap rule moves batched dims to the front and gives the others dims of size 1."""

    def rule(op, info, in_dims, x, w):
        x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x[None]
        w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w[None]
        w = w.reshape(w.shape[0], *[1] * (x.dim() - 2), w.shape[1])
        return (x * w).sum(-1), 0

    return _weighted("vmap_rule_is_right", rule)


@specimen(ROWS, skips={"vmap.loop": since("2.5", "vmap-not-implemented")})
def vmap_rule_refuses():
    """Correct: the vmap rule says that it takes no batch of weights."""

    def rule(op, info, in_dims, x, w):
        if in_dims[1] is not None:
            raise NotImplementedError("a batch of weights is not supported")
        return op(x.movedim(in_dims[0], 0), w), 0

    return _weighted("vmap_rule_refuses", rule)
