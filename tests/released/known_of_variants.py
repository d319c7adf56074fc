"""Confirmed failures on a variant of a plain example, in the pinned versions.

`docs/released-packages.md` shows what each does in plain torch. Notes fail nothing and are not listed here.
"""

from __future__ import annotations

import torch
from known import Known

CHECKS = ("fake.forward", "fake.backward", "values.uninitialized")
_CRASH = dict.fromkeys(CHECKS, "crash")


def _forward(code: str) -> dict[str, str]:
    return {"fake.forward": code}


def _backward(code: str) -> dict[str, str]:
    return {"fake.backward": code}


_SHAPE = _forward("fake-shape-mismatch")
_STRIDES = _forward("fake-stride-mismatch")
_RAISES = _forward("fake-raises")
_READ_PAST_END = {"values.uninitialized": "outputs-not-repeatable|uninitialized-output"}
_KEEPS = "the fake kernel keeps strides that the real one drops, or drops those that it keeps"
_PADS = "the fake kernel pads columns to four"


def _known(
    module: str, *entries: tuple[str, tuple[str, ...], dict[str, str], str]
) -> tuple[Known, ...]:
    """One entry for each op and step."""
    return tuple(
        Known(
            f"test_plain_{module}.py::test_{test}",
            "*-variants",
            codes,
            reason,
            step,
            by_chance=codes is _READ_PAST_END,
        )
        for test, steps, codes, reason in entries
        for step in steps
    )


_BITSANDBYTES = _known(
    "bitsandbytes",
    ("quantize_blockwise", ("A.transposed",), _STRIDES, _KEEPS),
    ("dequantize_blockwise", ("A.transposed",), _STRIDES, _KEEPS),
    ("int8_vectorwise_quant", ("transposed",), _STRIDES, _KEEPS),
    (
        "dequantize_4bit",
        ("dtype.float64",),
        {"values.uninitialized": "uninitialized-output"},
        "nothing is written to the output",
    ),
    (
        "gemm_4bit",
        ("float64",),
        {"values.uninitialized": "uninitialized-output"},
        "nothing is written to the unpacked weights",
    ),
    (
        "quantize_blockwise",
        ("float16", "bfloat16", "code.one0"),
        _READ_PAST_END,
        "256 codes of float32 are read, whatever is given",
    ),
    (
        "dequantize_blockwise",
        ("float16", "bfloat16"),
        _READ_PAST_END,
        "codes and scales of half the size are read as float32",
    ),
    (
        "gemm_4bit",
        ("absmax_8bit.given", "absmax_8bit.row"),
        _CRASH,
        "reads codes that are not given",
    ),
    (
        "int8_vectorwise_dequant",
        ("float64", "bfloat16"),
        _forward("fake-dtype-mismatch"),
        "the fake kernel promises float32",
    ),
)
if "AVX512" in torch.backends.cpu.get_cpu_capability():
    _BITSANDBYTES += _known(
        "bitsandbytes",
        (
            "int8_linear_matmul",
            ("one1",),
            {"values.uninitialized": "uninitialized-output"},
            "torch._int_mm writes nothing for one column times a transposed one",
        ),
        (
            "int8_scaled_mm",
            ("one1",),
            {"values.uninitialized": "uninitialized-output"},
            "calls int8_linear_matmul",
        ),
    )

_CUSTOM_OP_DB = _known(
    "custom_op_db",
    ("numpy_cat", ("transposed", "expanded"), _STRIDES, _KEEPS),
    ("numpy_mul", ("transposed",), _STRIDES, _KEEPS),
    ("numpy_mul_scalar", ("transposed",), _STRIDES, _KEEPS),
    ("numpy_sort", ("transposed",), _STRIDES, _KEEPS),
    ("numpy_take", ("x.transposed",), _STRIDES, _KEEPS),
    (
        "numpy_take",
        ("ind.transposed",),
        _STRIDES | _backward("fake-stride-mismatch"),
        _KEEPS,
    ),
    ("numpy_take", ("ind_inv.transposed",), _backward("fake-stride-mismatch"), _KEEPS),
    ("numpy_cube", ("transposed",), _backward("fake-stride-mismatch"), _KEEPS),
    ("numpy_split_copy", ("transposed",), _backward("fake-stride-mismatch"), _KEEPS),
    ("numpy_view_copy", ("transposed",), _RAISES, "makes a view that the strides do not allow"),
)

_FBGEMM = _known(
    "fbgemm",
    ("float_to_fused_8bit_rowwise", ("odd", "one1"), _SHAPE, _PADS),
    ("float_or_half_to_fused_8bit_rowwise", ("odd", "one1"), _SHAPE, _PADS),
    ("fused_8bit_rowwise_to_float", ("odd",), _SHAPE, _PADS),
    (
        "float_to_fused_8bit_rowwise",
        ("bfloat16",),
        _READ_PAST_END,
        "numbers of half the size are read as float32",
    ),
    ("float_to_hfp8", ("transposed",), _STRIDES, _KEEPS),
    ("hfp8_to_float", ("transposed",), _STRIDES, _KEEPS),
    ("jagged_dense_elementwise_add", ("transposed", "y.transposed"), _STRIDES, _KEEPS),
    ("permute_pooled_embs_auto_grad", ("pooled_embs.transposed",), _STRIDES, _KEEPS),
    ("masked_select_jagged_1d", ("check_length.true",), _RAISES, "the fake kernel lacks a flag"),
    (
        "sll_jagged_softmax",
        ("max_seq_len.less",),
        _READ_PAST_END,
        "writes nothing for what is longer than it is told",
    ),
    (
        "pack_segments_v2",
        ("return_presence_mask.true",),
        _RAISES,
        "the presence mask of the meta kernel is on the CPU",
    ),
)

_SPHERICART = _known(
    "sphericart",
    ("*", ("empty1",), _CRASH, "reads points of three numbers where there are none"),
    ("*", ("one1",), _READ_PAST_END, "reads points of three numbers where there is one"),
    ("*", ("odd",), _backward("backward-raises"), "reads three of five numbers"),
)

OF_VARIANTS: tuple[Known, ...] = (
    *_BITSANDBYTES,
    *_CUSTOM_OP_DB,
    *_FBGEMM,
    *_SPHERICART,
)
