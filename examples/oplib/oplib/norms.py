"""Normalizations and means."""

import torch
from torch import Tensor


@torch.library.custom_op("oplib::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """`x / sqrt(mean(x**2) + eps) * weight` over the last dim."""
    torch._check(weight.shape == x.shape[-1:], lambda: "weight must be of the size of a row")
    torch._check(weight.dtype == x.dtype, lambda: "x and weight must have the same dtype")
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight).contiguous()


@rms_norm.register_fake
def _(x, weight, eps=1e-6):
    torch._check(weight.shape == x.shape[-1:], lambda: "weight must be of the size of a row")
    torch._check(weight.dtype == x.dtype, lambda: "x and weight must have the same dtype")
    return x.new_empty(x.shape)


def _rms_norm_setup(ctx, inputs, output):
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _rms_norm_backward(ctx, grad):
    x, weight = ctx.saved_tensors
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
    normed = x * inverse
    scaled = grad * weight
    grad_x = inverse * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return grad_x, (grad * normed).sum_to_size(weight.shape), None


rms_norm.register_autograd(_rms_norm_backward, setup_context=_rms_norm_setup)


@torch.library.custom_op("oplib::masked_mean", mutates_args=())
def masked_mean(x: Tensor, mask: Tensor, keepdim: bool = False) -> Tensor:
    """Mean over the last dim of what the mask selects; 0 where it selects nothing."""
    torch._check(mask.dtype == torch.bool, lambda: "mask must be boolean")
    torch._check(mask.shape == x.shape, lambda: "mask must have the shape of x")
    total = torch.where(mask, x, 0).sum(-1, keepdim=keepdim)
    return total / mask.sum(-1, keepdim=keepdim).clamp(min=1)


@masked_mean.register_fake
def _(x, mask, keepdim=False):
    torch._check(mask.dtype == torch.bool, lambda: "mask must be boolean")
    torch._check(mask.shape == x.shape, lambda: "mask must have the shape of x")
    return x.new_empty(x.shape[:-1])
