"""Ops in the style of libraries for recommendation models: values with offsets or lengths."""

import torch
from torch import Tensor


def _validate(values, offsets):
    if offsets.dim() != 1 or offsets.dtype not in (torch.int32, torch.int64):
        raise ValueError("offsets is a 1-D tensor of int32 or int64")
    if int(offsets[0]) != 0 or int(offsets[-1]) != values.shape[0]:
        raise ValueError("offsets begin with 0 and end with the number of values")
    if bool((offsets.diff() < 0).any()):
        raise ValueError("offsets must not decrease")


@torch.library.custom_op("scanned::jagged_sum", mutates_args=())
def jagged_sum(values: Tensor, offsets: Tensor) -> Tensor:
    _validate(values, offsets)
    parts = values.tensor_split(offsets[1:-1].cpu())
    return torch.stack([part.sum(0) for part in parts])


@jagged_sum.register_fake
def _(values, offsets):
    return values.new_empty((offsets.shape[0] - 1, *values.shape[1:]))


@torch.library.custom_op("scanned::jagged_counts", mutates_args=())
def jagged_counts(values: Tensor, offsets: Tensor) -> Tensor:
    _validate(values, offsets)
    return offsets.diff()


@jagged_counts.register_fake
def _(values, offsets):
    return torch.empty_like(offsets)  # planted: there is one count less than offsets


@torch.library.custom_op("scanned::lengths_to_mask", mutates_args=())
def lengths_to_mask(lengths: Tensor, max_length: int) -> Tensor:
    if lengths.is_floating_point() or lengths.dim() != 1:
        raise TypeError("lengths is a vector of whole numbers")
    if max_length < 1 or bool((lengths < 0).any()) or bool((lengths > max_length).any()):
        raise ValueError("lengths must be between 0 and max_length")
    return torch.arange(max_length) < lengths[:, None]


@lengths_to_mask.register_fake
def _(lengths, max_length):
    return lengths.new_empty(lengths.shape[0], max_length, dtype=torch.bool)


@torch.library.custom_op("scanned::embedding_rows", mutates_args=())
def embedding_rows(weight: Tensor, indices: Tensor) -> Tensor:
    if weight.dim() != 2:
        raise ValueError("weight has to be 2-dimensional")
    return weight[indices.long()]


@embedding_rows.register_fake
def _(weight, indices):
    return weight.new_empty((*indices.shape, weight.shape[1]))


@torch.library.custom_op("scanned::permute_segments", mutates_args=())
def permute_segments(permute: Tensor, lengths: Tensor, values: Tensor) -> Tensor:
    if int(lengths.sum()) != values.shape[0]:
        raise ValueError("the lengths must sum to the number of values")
    if sorted(permute.tolist()) != list(range(lengths.numel())):
        raise ValueError("permute is no permutation of the segments")
    parts = values.split(lengths.tolist())
    return torch.cat([parts[at] for at in permute.tolist()])


@permute_segments.register_fake
def _(permute, lengths, values):
    return torch.empty_like(values)
