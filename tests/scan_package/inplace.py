"""Ops that write to arguments."""

import torch
from torch import Tensor


@torch.library.custom_op("scanned::scale_into", mutates_args={"out"})
def scale_into(x: Tensor, factor: float, out: Tensor) -> None:
    if out.shape != x.shape:
        raise ValueError("out must have the same shape as x")
    out.copy_(x * factor)


@torch.library.custom_op("scanned::accumulate", mutates_args={"total"})
def accumulate(x: Tensor, total: Tensor, count: Tensor) -> None:
    total.add_(x)
    count.add_(1)  # planted: the schema does not say that count is written to


@torch.library.custom_op("scanned::adam_step", mutates_args={"param", "exp_avg", "exp_avg_sq"})
def adam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
) -> None:
    if step < 1 or not 0 <= beta1 < 1 or not 0 <= beta2 < 1:
        raise ValueError("step counts from 1, and betas are in [0, 1)")
    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    corrected = exp_avg_sq.div(1 - beta2**step).sqrt_().add_(eps)
    param.addcdiv_(exp_avg, corrected, value=-lr / (1 - beta1**step))


@torch.library.custom_op("scanned::store_rows", mutates_args={"cache"})
def store_rows(cache: Tensor, rows: Tensor, slots: Tensor) -> None:
    if slots.dtype not in (torch.int32, torch.int64) or slots.dim() != 1:
        raise TypeError("slots are positions in the cache")
    if rows.shape != (slots.shape[0], *cache.shape[1:]):
        raise ValueError("one row a slot is needed")
    cache[slots.long()] = rows
