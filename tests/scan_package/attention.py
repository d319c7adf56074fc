"""Ops in the style of attention libraries."""

from typing import Optional

import torch
from torch import Tensor


@torch.library.custom_op("scanned::attend", mutates_args=())
def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], scale: float
) -> Tensor:
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise RuntimeError("query, key and value must be 4D: batch, heads, length, dim")
    if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        raise RuntimeError("shapes of query, key and value do not match")
    if mask is not None and mask.dtype != torch.bool:
        raise RuntimeError("mask must be bool")
    scores = query @ key.transpose(-1, -2) * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    return scores.softmax(-1) @ value


@attend.register_fake
def _(query, key, value, mask, scale):
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


@torch.library.custom_op("scanned::rotate_half", mutates_args=())
def rotate_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    if x.shape[-1] % 2 or cos.shape != x.shape[-2:] or sin.shape != cos.shape:
        raise ValueError("cos and sin have the last two sizes of x, the last of them even")
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * cos + turned * sin).transpose(-1, -2).contiguous().transpose(-1, -2)


@rotate_half.register_fake
def _(x, cos, sin):
    return torch.empty_like(x)  # planted: the last two dims are the other way round in memory


@torch.library.custom_op("scanned::rotate_pairs", mutates_args=())
def rotate_pairs(x: Tensor) -> Tensor:
    if x.shape[-1] % 2:
        raise ValueError("head dim must be even")
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


@rotate_pairs.register_fake
def _(x):
    return x.new_empty(x.shape)


@torch.library.custom_op("scanned::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"weight must have shape {tuple(x.shape[-1:])}")
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


@rms_norm.register_fake
def _(x, weight, eps=1e-6):
    return x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, weight.dtype))


@torch.library.custom_op("scanned::grouped_mm", mutates_args=())
def grouped_mm(x: Tensor, weight: Tensor, num_groups: int) -> Tensor:
    if weight.dim() != 3 or weight.shape[0] != num_groups:
        raise ValueError("weight has to be (num_groups, in, out)")
    if x.dim() != 2 or x.shape[1] != num_groups * weight.shape[1]:
        raise ValueError("x has num_groups * in columns")
    parts = x.reshape(x.shape[0], num_groups, -1).transpose(0, 1)
    return torch.bmm(parts, weight).transpose(0, 1).reshape(x.shape[0], -1)


@grouped_mm.register_fake
def _(x, weight, num_groups):
    return x.new_empty(x.shape[0], num_groups * weight.shape[2])
