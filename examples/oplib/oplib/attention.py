"""Parts of attention."""

import math

import torch
from torch import Tensor


@torch.library.custom_op("oplib::softmax_rows", mutates_args=())
def softmax_rows(scores: Tensor) -> Tensor:
    """Softmax over the last dim."""
    scores -= scores.amax(-1, keepdim=True)
    weights = torch.exp(scores)
    return (weights / weights.sum(-1, keepdim=True)).contiguous()


@softmax_rows.register_fake
def _(scores):
    return scores.new_empty(scores.shape)


@torch.library.custom_op("oplib::scaled_dot", mutates_args=())
def scaled_dot(q: Tensor, k: Tensor, normalize: bool = False) -> Tensor:
    """Dot products of rows: (n, d) and (n, d) to (n,), divided by `sqrt(d)` on request."""
    torch._check(q.dim() == 2 and q.shape == k.shape, lambda: "q and k must be (n, d)")
    torch._check(q.dtype == k.dtype, lambda: "q and k must have the same dtype")
    products = (q * k).sum(-1)
    return products / math.sqrt(q.shape[-1]) if normalize else products


@scaled_dot.register_fake
def _(q, k, normalize=False):
    torch._check(q.dim() == 2 and q.shape == k.shape, lambda: "q and k must be (n, d)")
    torch._check(q.dtype == k.dtype, lambda: "q and k must have the same dtype")
    return q.new_empty(q.shape[:1])


def _scaled_dot_backward(ctx, grad):
    q, k = ctx.saved_tensors
    return grad[:, None] * k, grad[:, None] * q, None


scaled_dot.register_autograd(
    _scaled_dot_backward,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:2]),
)
