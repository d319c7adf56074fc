"""Ops with lists, optional arguments, strings and dtypes."""

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor


@torch.library.custom_op("scanned::concat", mutates_args=())
def concat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    if len(tensors) < 2:
        raise ValueError("at least 2 tensors are needed")
    return torch.cat(list(tensors), dim)


@concat.register_fake
def _(tensors, dim):
    shape = list(tensors[0].shape)
    shape[dim] = sum(each.shape[dim] for each in tensors)
    return tensors[0].new_empty(shape)


@torch.library.custom_op("scanned::first_of", mutates_args=())
def first_of(tensors: Sequence[Tensor], index: int = 0) -> Tensor:
    return tensors[index]  # planted: an output is an argument


first_of.register_fake(lambda tensors, index=0: torch.empty_like(tensors[index]))


@torch.library.custom_op("scanned::reduce_by", mutates_args=())
def reduce_by(x: Tensor, reduction: str, weight: Optional[Tensor] = None) -> Tensor:
    if weight is not None:
        if weight.shape != x.shape:
            raise ValueError("weight and x must have the same shape")
        x = x * weight
    return {"sum": x.sum, "mean": x.mean, "amax": x.amax}[reduction]()


@reduce_by.register_fake
def _(x, reduction, weight=None):
    return x.new_empty(())


@torch.library.custom_op("scanned::convert", mutates_args=())
def convert(x: Tensor, dtype: torch.dtype, scales: Optional[Sequence[float]] = None) -> Tensor:
    if not dtype.is_floating_point:
        raise TypeError("dtype must be a floating-point dtype")
    scales = scales or [1.0]
    return (x * sum(scales)).to(dtype, copy=True)


@convert.register_fake
def _(x, dtype, scales=None):
    return torch.empty_like(x, dtype=dtype)


@torch.library.custom_op("scanned::split_sizes", mutates_args=())
def split_sizes(x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    if sum(sizes) != x.shape[0]:
        raise ValueError(f"sizes must sum to {x.shape[0]}, not {sum(sizes)}")
    return [part.clone() for part in x.split(list(sizes))]


@split_sizes.register_fake
def _(x, sizes):
    return [x.new_empty(size, *x.shape[1:]) for size in sizes]
