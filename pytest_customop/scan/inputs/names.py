"""Guess from the name and the type of an argument which values an op may accept."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

INTEGERS = (torch.int64, torch.int32)
BYTES = (torch.uint8, torch.int8, torch.int32)
FLOATS = (None, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class TensorKind:
    """The likely properties of a tensor of some name; the most likely come first.

    Args:
        contents: the kinds of its values.
        dtypes: None for the dtype of the case.
        ranks: numbers of dims.
        sizes: fixed sizes that a dim may have.
    """

    contents: tuple[str, ...] = ("real",)
    dtypes: tuple[torch.dtype | None, ...] = FLOATS
    ranks: tuple[int, ...] = (2, 1, 3, 4, 0)
    sizes: tuple[int, ...] = ()


# Patterns for argument names, ignoring case; the first match counts.
_TENSORS: tuple[tuple[str, TensorKind], ...] = (
    (r"mask|valid|is_", TensorKind(("bytes",), (torch.bool, torch.uint8, None), (2, 1, 3, 4))),
    (
        r"offset|_off$|indptr|_ptr|ptr$|cu_seq|crow|splits$|cumsum",
        TensorKind(("offsets", "indices"), INTEGERS, (1,)),
    ),
    (
        r"len(gth)?s?$|lengths|counts?$|sizes$|_per_|bag_size",
        TensorKind(("lengths", "indices", "ones"), INTEGERS, (1, 2, 0)),
    ),
    (r"perm", TensorKind(("permutation", "indices"), INTEGERS, (1,))),
    (
        r"ind(ex|ices|exes)|idx|arg(max|min)|ids?$|slots?|position|token|label|target|^rows?|cols?$|segment|expert"
        r"|_map|routing|^seg$",
        TensorKind(("indices", "offsets", "lengths", "permutation"), INTEGERS, (1, 2, 3)),
    ),
    (r"box|rois?$|dets", TensorKind(("boxes", "positive"), FLOATS, (2,))),
    (
        r"scale|absmax|std|var(iance)?$|norm|sigma|stats",
        TensorKind(("positive",), (None, torch.float16, torch.bfloat16), (1, 2, 0, 3)),
    ),
    (
        r"zero_?point|shift",
        TensorKind(("indices", "real"), (torch.int64, None, torch.int32), (1, 2, 0)),
    ),
    (r"bias$|^b$", TensorKind(("real",), FLOATS, (1, 2))),
    (
        r"code$|codebook|lut|quant_map|qmap",
        TensorKind(("levels", "positive"), FLOATS, (1, 2), (256, 16)),
    ),
    (
        r"pack|q(uant)?_?weight|quanti[sz]ed|int8|int4|codes|compressed|uint8",
        TensorKind(("bytes",), BYTES, (2, 1, 3)),
    ),
    (r"seed|step$|state_step", TensorKind(("ones", "indices"), (torch.int64, None), (0, 1))),
)

_BITS, _BLOCKS = (4, 8, 2, 3, 16), (64, 32, 16, 128, 256, 8, 4, 2)
_INTS: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"dims?$|axis|^dim", (-1, 0, 1, -2, 2)),
    (r"bits?$|bit_?(rate|width)|nbit", _BITS),
    (r"block_?size|group_?size|tile|chunk", _BLOCKS),
    (r"stride|dilation|step|start_", (1, 2, 0)),
    (r"pad(ding)?", (0, 1)),
    (r"groups?$", (1, 2)),
    (r"seed|offset|top|left|index|rank$", (0, 1, 2)),
)
# Names of integers that are the size of a tensor.
_SIZE = r"^(batch(_size)?|(in_|out_|num_)?channels|height|width|depth)$"
_FLOATS: tuple[tuple[str, tuple[float, ...]], ...] = (
    (r"eps", (1e-5, 1e-6, 1e-3)),
    (r"beta|momentum|decay|alpha", (0.9, 0.5, 0.0)),
    (r"lr|learning", (0.01, 0.1)),
    (r"^p$|prob|dropout", (0.0, 0.5)),
)
_STRINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"reduc|pool", ("mean", "sum", "none")),
    (r"act", ("relu", "gelu", "silu")),
    (r"quant|type", ("nf4", "fp4", "int8", "fp8")),
    (r"mode|interp", ("nearest", "bilinear", "reflect", "constant")),
    (r"layout|format", ("NCHW", "NHWC")),
    (r"device", ("cpu",)),
)
DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float64,
)


@functools.lru_cache(maxsize=1024)
def tensor_kind(name: str) -> TensorKind:
    """The likely properties of a tensor argument of this name."""
    return next((kind for rule, kind in _TENSORS if _matches(rule, name)), TensorKind())


def is_size(name: str) -> bool:
    """Whether an integer of this name is likely to be the size of a tensor."""
    return _matches(_SIZE, name)


def plain_values(kind: str, name: str) -> list[Any]:
    """Values of a plain argument, by its type in the schema and its name; the most likely first."""
    if kind in ("ScalarType", "dtype") or (kind == "int" and re.search("dtype", name)):
        return [*DTYPES]
    if kind == "int":
        return [*_first(_INTS, name, ()), 2, 1, 3, 4, 0, 8, 16, -1]
    if kind == "float":
        return [*_first(_FLOATS, name, ()), 1.0, 0.5, 2.0, 0.0, 0.1]
    if kind == "bool":
        return [False, True]
    if kind in ("number", "Scalar"):
        return [1.0, 2, 0.5, 0]
    if kind == "str":
        return [*_first(_STRINGS, name, ()), "", "default", "none"]
    return _OTHERS.get(kind, [])


_OTHERS: dict[str, list[Any]] = {
    "Device": [torch.device("cpu")],
    "Layout": [torch.strided],
    "MemoryFormat": [torch.contiguous_format, torch.channels_last],
    "Generator": [None],
}


def _first(rules: Sequence[tuple[str, Any]], name: str, default: Any) -> Any:
    return next((values for rule, values in rules if _matches(rule, name)), default)


def _matches(rule: str, name: str) -> bool:
    return re.search(rule, name, re.IGNORECASE) is not None
