"""Confirmed findings that only a variant of a plain example brings, in the pinned versions.

`docs/released-packages.md` tells what each does in plain torch.
"""

from __future__ import annotations

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
_TRUSTS = "reads memory that the sizes of its arguments do not cover"
_BROADCASTS = "the real kernel broadcasts, the fake kernel does not"
_KEEPS = "the fake kernel keeps strides that the real one drops, or drops those that it keeps"
_PADS = "the fake kernel pads columns to four"
_DOUBLE = "only the fake kernel refuses the dtype"


def _known(
    module: str, *found: tuple[str, tuple[str, ...], dict[str, str], str]
) -> tuple[Known, ...]:
    """One entry for each op and step."""
    return tuple(
        Known(f"test_plain_{module}.py::test_{test}", "*-variants", codes, reason, step)
        for test, steps, codes, reason in found
        for step in steps
    )


_BITSANDBYTES = _known(
    "bitsandbytes",
    ("quantize_blockwise", ("A.transposed",), _STRIDES, _KEEPS),
    ("dequantize_blockwise", ("A.transposed",), _STRIDES, _KEEPS),
    ("int8_vectorwise_quant", ("transposed",), _STRIDES, _KEEPS),
    ("quantize_blockwise", ("code.empty0",), _CRASH, _TRUSTS),
    ("dequantize_blockwise", ("code.empty0",), _CRASH, _TRUSTS),
    ("dequantize_4bit", ("absmax.empty0",), _CRASH, _TRUSTS),
    ("ge[mv][mv]_4bit", ("absmax.empty0",), _CRASH, _TRUSTS),
    ("quantize_blockwise", ("A.float64", "float64"), _RAISES, _DOUBLE),
    ("dequantize_blockwise", ("dtype.float64",), _RAISES, _DOUBLE),
    ("quantize_4bit", ("float64",), _RAISES, _DOUBLE),
    ("dequantize_4bit", ("float64", "bfloat16"), _RAISES, _DOUBLE),
    (
        "dequantize_4bit",
        ("dtype.float64",),
        _RAISES | {"values.uninitialized": "uninitialized-output"},
        "nothing is written to the output",
    ),
    ("gemm_4bit", ("A.float64", "float64", "absmax.float64", "bfloat16"), _RAISES, _DOUBLE),
    ("gemm_4bit", ("absmax_8bit.given",), _CRASH, _TRUSTS),
    ("gemv_4bit", ("A.float64", "float64"), _RAISES, _DOUBLE),
    (
        "int8_vectorwise_dequant",
        ("float64", "bfloat16"),
        _forward("fake-dtype-mismatch"),
        "the fake kernel promises float32",
    ),
    ("int8_vectorwise_dequant", ("A.one0",), _SHAPE, _BROADCASTS),
    ("int8_mm_dequant", ("A.one0", "A.one1"), _SHAPE, _BROADCASTS),
    ("int8_scaled_mm", ("A.one0", "B.one0"), _SHAPE, _BROADCASTS),
    ("int8_linear_matmul_out", ("A.one0", "B.one0"), _RAISES, _BROADCASTS),
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
    ("float_to_hfp8", ("transposed",), _STRIDES, _KEEPS),
    ("hfp8_to_float", ("transposed",), _STRIDES, _KEEPS),
    ("jagged_dense_elementwise_add", ("transposed", "y.transposed"), _STRIDES, _KEEPS),
    ("permute_pooled_embs_auto_grad", ("pooled_embs.transposed",), _STRIDES, _KEEPS),
    ("jagged_dense_elementwise_add", ("y.one0",), _SHAPE, _BROADCASTS),
    ("masked_select_jagged_1d", ("check_length.true",), _RAISES, "the fake kernel lacks a flag"),
    (
        "pack_segments_v2",
        ("return_presence_mask.true",),
        _RAISES,
        "the presence mask of the meta kernel is on the CPU",
    ),
)

_HARMONICS = _known(
    "torch_harmonics",
    (
        "attention",
        ("kw.one2", "vw.one2"),
        _backward("fake-shape-mismatch"),
        "keys and values of another grid: reads past their end",
    ),
    (
        "attention",
        ("qw.one0", "qw.one1", "vw.one0", "vw.one1"),
        _backward("fake-shape-mismatch"),
        "the sizes of its arguments are not compared",
    ),
    ("contraction", ("empty3",), _CRASH, "divides by the width of the input"),
    ("transpose_contraction", ("empty4",), _CRASH, "divides by the width of the input"),
)

_SPHERICART = _known("sphericart", ("*", ("empty1",), _CRASH, _TRUSTS))

OF_VARIANTS: tuple[Known, ...] = (
    *_BITSANDBYTES,
    *_CUSTOM_OP_DB,
    *_FBGEMM,
    *_HARMONICS,
    *_SPHERICART,
)
