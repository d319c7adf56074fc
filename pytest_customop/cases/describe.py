"""Describe the values that go in and out of ops, in the words of a message."""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import replace
from typing import Any

import torch

from ..core.wording import dtype_name, layout_name
from ..declare.inputs import TensorSpec
from .tensors import readable

# The most values of a described tensor that are listed: floating-point ones, and others.
_FRACTIONS, _WHOLE = 24, 64


def describe(value: Any) -> str:
    """One argument in words: a tensor by dtype, shape, strides and a hash of its values; others by repr."""
    if isinstance(value, torch.Tensor):
        return f"{summary(value)} values sha256:{digest(value)}"
    if isinstance(value, (list, tuple)) and any(isinstance(e, torch.Tensor) for e in value):
        return f"[{', '.join(describe(element) for element in value)}]"
    if isinstance(value, TensorSpec) and value.values_dtype is not None:
        return repr(_by_range(value))
    return repr(value)


def _by_range(spec: TensorSpec) -> TensorSpec:
    """A description that replaces values by their range if there are many."""
    values = torch.as_tensor(spec.values)
    fractions = values.is_floating_point()
    if values.numel() <= (_FRACTIONS if fractions else _WHOLE) or values.is_complex():
        return replace(spec, values=_rounded(values.tolist()))
    unlisted = replace(spec, values=None, dtype=spec.dtype or (None if fractions else values.dtype))
    if values.dtype == torch.bool:
        return unlisted
    low, high = (bound.item() for bound in torch.aminmax(values.float() if fractions else values))
    return replace(unlisted, low=_rounded(low), high=_rounded(high) if fractions else high + 1)


def _rounded(value: Any) -> Any:
    """Numbers rounded to six digits, also in lists."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def summary(tensor: torch.Tensor) -> str:
    """A tensor in words, without its values: `float32[5, 4] strides (1, 5) requires_grad`."""
    text = f"{dtype_name(tensor.dtype)}{list(tensor.shape)}"
    if tensor.layout != torch.strided:
        return f"{text} {layout_name(tensor.layout)}"
    if not tensor.is_contiguous():
        text += f" strides {tuple(tensor.stride())}"
    if tensor.storage_offset():
        text += f" offset {tensor.storage_offset()}"
    if tensor.device.type != "cpu":
        text += f" on {tensor.device}"
    if tensor.requires_grad:
        text += " requires_grad"
    return text


def digest(tensor: torch.Tensor) -> str:
    """Eight hex digits of a hash of the values, to distinguish real tensors in a message."""
    value = readable(tensor).cpu().contiguous()
    size = value.numel() * value.element_size()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return hashlib.sha256(data).hexdigest()[:8]
