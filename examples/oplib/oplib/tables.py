"""Segments, counts, statistics: kernels under schemas."""

import itertools

import numpy as np
import torch

_library = torch.library.Library("oplib", "DEF")
_library.define("segment_sum(Tensor values, Tensor offsets) -> Tensor")
_library.define("count_values(Tensor labels, int classes) -> Tensor")
_library.define("ema_(Tensor(a!) running, Tensor value, float momentum=0.1) -> ()")
_library.define("quantize_rows(Tensor x) -> (Tensor, Tensor)")


@torch.library.impl(_library, "segment_sum", "CPU")
def _segment_sum(values, offsets):
    torch._check(values.dim() == 2 and offsets.dim() == 1, lambda: "values (n, d), offsets (m + 1)")
    bounds = offsets.tolist()
    torch._check(
        bool(bounds) and bounds[0] == 0 and bounds[-1] == len(values) and bounds == sorted(bounds),
        lambda: "offsets must rise from 0 to n",
    )
    out = values.new_zeros(len(bounds) - 1, values.shape[1])
    for row, (first, end) in enumerate(itertools.pairwise(bounds)):
        out[row] = values[first:end].sum(0)
    return out


@torch.library.register_fake("oplib::segment_sum", lib=_library)
def _(values, offsets):
    torch._check(values.dim() == 2 and offsets.dim() == 1, lambda: "values (n, d), offsets (m + 1)")
    return values.new_empty(offsets.shape[0] - 1, values.shape[1])


def _segment_sum_setup(ctx, inputs, output):
    values, offsets = inputs
    ctx.rows = values.shape[0]
    ctx.save_for_backward(offsets)


def _segment_sum_backward(ctx, grad):
    (offsets,) = ctx.saved_tensors
    return grad.repeat_interleave(offsets.diff(), 0, output_size=ctx.rows), None


torch.library.register_autograd(
    "oplib::segment_sum", _segment_sum_backward, setup_context=_segment_sum_setup, lib=_library
)


@torch.library.impl(_library, "count_values", "CPU")
def _count_values(labels, classes):
    torch._check(labels.dim() == 1 and not labels.is_floating_point(), lambda: "labels are (n,)")
    if len(labels):
        low, high = int(labels.min()), int(labels.max())
        torch._check(low >= 0 and high < classes, lambda: "labels must be below classes")
    counts = np.bincount(labels.numpy().astype(np.int64), minlength=classes)
    return torch.from_numpy(counts)


@torch.library.register_fake("oplib::count_values", lib=_library)
def _(labels, classes):
    torch._check(labels.dim() == 1 and not labels.is_floating_point(), lambda: "labels are (n,)")
    return labels.new_empty(classes, dtype=torch.int64)


@torch.library.impl(_library, "ema_", "CPU")
def _ema(running, value, momentum=0.1):
    torch._check(running.shape == value.shape, lambda: "running and value: one shape")
    torch._check(running.dtype == value.dtype, lambda: "running and value: one dtype")
    running.lerp_(value, momentum)


@torch.library.register_fake("oplib::ema_", lib=_library)
def _(running, value, momentum=0.1):
    torch._check(running.shape == value.shape, lambda: "running and value: one shape")
    torch._check(running.dtype == value.dtype, lambda: "running and value: one dtype")


@torch.library.impl(_library, "quantize_rows", "CPU")
def _quantize_rows(x):
    torch._check(x.dim() == 2 and x.shape[1] > 0, lambda: "x must be (n, d)")
    scale = x.abs().amax(1).clamp(min=1e-8) / 127
    return torch.round(x / scale[:, None]).to(torch.int8).contiguous(), scale


@torch.library.register_fake("oplib::quantize_rows", lib=_library)
def _(x):
    torch._check(x.dim() == 2 and x.shape[1] > 0, lambda: "x must be (n, d)")
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[0])


segment_sum = torch.ops.oplib.segment_sum
count_values = torch.ops.oplib.count_values
ema_ = torch.ops.oplib.ema_
quantize_rows = torch.ops.oplib.quantize_rows
