"""Operators for small transformers."""

from oplib.activations import softcap, swiglu
from oplib.attention import scaled_dot, softmax_rows
from oplib.images import pack_columns, patchify
from oplib.norms import masked_mean, rms_norm
from oplib.tables import count_values, ema_, quantize_rows, segment_sum

__all__ = [
    "count_values",
    "ema_",
    "masked_mean",
    "pack_columns",
    "patchify",
    "quantize_rows",
    "rms_norm",
    "scaled_dot",
    "segment_sum",
    "softcap",
    "softmax_rows",
    "swiglu",
]
