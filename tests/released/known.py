"""Confirmed findings in the pinned versions: `docs/released-packages.md` shows each in plain torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

_FAKE = ("fake.forward", "opcheck.test_faketensor")
_COMPILE = ("compile.static", "compile.dynamic")
REGISTRATION = {"opcheck.test_autograd_registration": "autograd-registration"}
LAYOUTS = {"values.layouts": "layout-dependent-result"}


def wrong_fake(code: str, compiled: str = "compile-output-mismatch") -> dict[str, str]:
    """The findings that a fake kernel with wrong metadata brings about."""
    return dict.fromkeys(_FAKE, code) | dict.fromkeys(_COMPILE, compiled)


STRIDES = wrong_fake("fake-stride-mismatch", "compile-stride-assert")


@dataclass(frozen=True)
class Known:
    """Expected failures of one test.

    Args:
        test: `test_file.py::test_name`, with wildcards.
        cases: the case in the test's id, with wildcards.
        codes: the finding expected of each check, or several separated by `|`.
        reason: what is wrong.
        variant: the variant of the case that shows it; None for the case itself.
        by_chance: whether it depends on what the memory held, so that it may also pass.
    """

    test: str
    cases: str
    codes: Mapping[str, str]
    reason: str
    variant: str | None = None
    by_chance: bool = False


def expected(nodeid: str, variant: str | None, known: Iterable[Known]) -> tuple[str, Known] | None:
    """The code of the failure that is known of an item, and where it is known from, if one is.

    Args:
        nodeid: of the item.
        variant: the one of the item's variants that is asked for; None where it has none.
        known: where to look; the first that fits decides.
    """
    test, _, parameters = nodeid.rpartition("/")[2].partition("[")
    case, _, check = parameters.rstrip("]").rpartition("-")
    for entry in known:
        if entry.variant != variant:
            continue
        if fnmatch.fnmatchcase(test, entry.test) and fnmatch.fnmatchcase(case, entry.cases):
            code = entry.codes.get(check)
            if code is not None:
                return code, entry
    return None


_THIRD = {
    "backward.linear": "backward-raises",
    "compile.dynamic": "backward-raises",
    "compile.static": "backward-raises",
    "fake.backward": "backward-raises",
    "gradcheck.backward": "backward-raises",
    "opcheck.test_aot_dispatch_dynamic": "backward-raises",
}
_EAGER_ONLY = "gradients in eager mode only: None under torch.compile"

# With AVX-512 the op has a kernel for integers, and its out overload none.
_AVX512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
_THROUGH_MATMUL = ("test_int8_linear_matmul_out", *["test_int8_linear_matmul"] * (not _AVX512))

_BITSANDBYTES = tuple(
    Known(f"test_bitsandbytes.py::{test}", cases, codes, reason)
    for test, cases, codes, reason in (
        (
            "test_dequantize_4bit",
            "*one_dim",
            wrong_fake("fake-shape-mismatch"),
            "a one-dimensional shape comes back with two dimensions",
        ),
        *(
            (test, "*-transposed-*", STRIDES, "the fake kernel keeps strides that the real drops")
            for test in ("test_quantize_blockwise", "test_dequantize_blockwise")
        ),
        *(
            (test, cases, LAYOUTS, "reads strided memory as if it were contiguous")
            for test, cases in (
                ("test_quantize_blockwise", "*-nograd-f*"),
                ("test_dequantize_blockwise", "*-nograd-0"),
                ("test_dequantize_4bit", "*"),
                ("test_gemm_4bit", "*"),
                ("test_gemv_4bit", "*"),
                ("test_optimizer_update_8bit_blockwise", "*"),
            )
        ),
        *(
            (test, "*-withgrad-*", REGISTRATION, _EAGER_ONLY)
            for test in (
                "test_gemm_4bit",
                "test_int8_mm_dequant",
                "test_int8_scaled_mm",
                "test_int8_vectorwise_dequant",
                "test_quantize_4bit",
            )
        ),
        ("test_int8_vectorwise_quant", "*-withgrad-plain", REGISTRATION, _EAGER_ONLY),
        *(
            (
                test,
                "*",
                {"compile.autocast": "compile-autocast-mismatch"},
                "under autocast the exact integer product is computed in bfloat16",
            )
            for test in _THROUGH_MATMUL
        ),
        (
            "test_dequantize_blockwise",
            "*",
            {"relations.precision": "precision-mismatch"},
            "reads codes and scales of any dtype as float32",
        ),
        (
            "test_int8_mixed_scaled_mm",
            "*-no_outliers",
            wrong_fake("fake-dtype-mismatch"),
            "the second output is float16, and int64 in the fake kernel",
        ),
        (
            "test_int8_mixed_scaled_mm",
            "*-outliers",
            wrong_fake("fake-shape-mismatch"),
            "the second output has two dimensions, and one in the fake kernel",
        ),
        *(
            (test, "*-batched", wrong_fake("fake-shape-mismatch"), "batch dimensions are lost")
            for test in ("test_int8_mm_dequant", "test_int8_scaled_mm")
        ),
        (
            "test_int8_vectorwise_quant",
            "*-nograd-outliers",
            {"values.mutation": "undeclared-mutation"},
            "writes zeros to its input and puts the values back",
        ),
        (
            "test_optimizer_update_*",
            "*",
            {"values.mutation": "version-not-bumped"},
            "writes to the parameter through .data",
        ),
    )
)
_TABLES = {"values.threads": "thread-unsafe"}
_BITSANDBYTES += tuple(
    Known(f"test_bitsandbytes.py::{test}", cases, codes, reason, by_chance=True)
    for test, cases, codes, reason in (
        ("test_quantize_blockwise", "*", _TABLES, "threads share a cache of tables by address"),
        (
            "test_optimizer_update_8bit_blockwise",
            "*",
            _TABLES,
            "threads share a cache of tables by address",
        ),
        (
            "test_dequantize_blockwise",
            "*-0",
            {"compile.dynamic": "compile-output-mismatch"},
            "the number of scales is not looked at: at a second size it is read past their end",
        ),
        (
            "test_gemm_4bit",
            "*",
            {"relations.precision": "precision-mismatch"},
            "nothing is written to the weights that are unpacked to float64",
        ),
        (
            "test_gemv_4bit",
            "*-withgrad-*",
            REGISTRATION,
            f"{_EAGER_ONLY}; a processor with bfloat16 has another kernel, without gradients",
        ),
    )
)

_QUANTO = (
    Known("test_quanto.py::test_qbytes_mm*", "*-withgrad-*", REGISTRATION, _EAGER_ONLY),
    Known("test_quanto.py::test_quantize_symmetric", "*-withgrad-*3", REGISTRATION, _EAGER_ONLY),
)

_SPHERICART = (
    Known(
        "test_sphericart.py::*_with_hessians",
        "*-withgrad-*",
        _THIRD,
        "the backward always raises: gradients of unused outputs arrive as zeros, not None",
    ),
    Known(
        "test_sphericart.py::*",
        "*",
        {"vmap.loop": "vmap-mismatch"},
        "the vmap rule is right for single points only",
    ),
)

_TORCHAO = (
    Known("test_torchao.py::*quantize_affine_float8", "*-withgrad-*", REGISTRATION, _EAGER_ONLY),
)

_BREAK = dict.fromkeys(_COMPILE, "compile-graph-break")
_NO_FAKE = dict.fromkeys((*_COMPILE, *_FAKE, "opcheck.test_aot_dispatch_dynamic"), "fake-missing")
_ITEM = _BREAK | {
    "fake.forward": "fake-raises",
    "opcheck.test_aot_dispatch_dynamic": "fake-raises",
}
_ALIAS = {"values.aliasing": "undeclared-alias"}
_STRIDED = "reads strided memory as if it were contiguous"

_FBGEMM = tuple(
    Known(f"test_fbgemm.py::{test}", cases, codes, reason)
    for test, cases, codes, reason in (
        *(
            (test, "*", wrong_fake("fake-shape-mismatch"), "the fake kernel pads columns to four")
            for test in (
                "test_float_to_fused_8bit_rowwise",
                "test_float_or_half_to_fused_8bit_rowwise",
                "test_fused_8bit_rowwise_to_*",
            )
        ),
        *(
            (test, "*-transposed-*", STRIDES, "the fake kernel keeps strides that the real drops")
            for test in (
                "test_float_to_hfp8",
                "test_hfp8_to_float",
                "test_jagged_dense_elementwise_add",
                "test_permute_pooled_embs_auto_grad",
            )
        ),
        *(
            (test, "*", LAYOUTS, _STRIDED)
            for test in (
                "test_float_to_*",
                "test_float_or_half_to_fused_nbit_rowwise",
                "test_fused_*",
                "test_hfp8_to_float",
                "test_batched_unary_embeddings",
                "test_block_bucketize_sparse_features",
                "test_expand_into_jagged_permute",
                "test_get_source_mask",
                "test_histogram_binning_calibration",
                "test_pack_segments_v2",
                "test_permute_2d_*",
                "test_permute_sparse_features",
                "test_repeat_arange",
                "test_segment_sum_csr",
            )
        ),
        # Roundings of float16 numbers change nearly as many bytes.
        ("test_float_or_half_to_fused_8bit_rowwise", "*-float32-*", LAYOUTS, _STRIDED),
        *(
            (test, "*grad-0", LAYOUTS, _STRIDED)
            for test in ("test_pack_segments", "test_permute_pooled_embs_auto_grad")
        ),
        *(
            (test, "*", _NO_FAKE, "there is no fake kernel")
            for test in (
                "test_float_to_bfloat16",
                "test_index_select_dim0",
                "test_sll_dense_jagged_cat_jagged_out",
                "test_stacked_jagged_*",
            )
        ),
        *(
            (test, "*-withgrad-*", REGISTRATION, "gradients come from no autograd kernel")
            for test in (
                "test_index_select_dim0",
                "test_jagged_dense_elementwise_add",
                "test_sll_dense_jagged_cat_jagged_out",
                "test_stacked_jagged_*",
            )
        ),
        *(
            (test, "*", _ITEM, "the kernel at AutogradCPU reads values, and hides the meta kernel")
            for test in (
                "test_sll_array_jagged_bmm_jagged_out",
                "test_sll_jagged2_*",
                "test_sll_jagged_dense_elementwise_mul_jagged_out",
                "test_sll_jagged_flash_attention_basic",
                "test_sll_jagged_jagged_bmm_jagged_out",
            )
        ),
        *(
            (test, "*", _ALIAS, "returns its offsets; the schema says new ones")
            for test in (
                "test_dense_to_jagged",
                "test_jagged_dense_bmm",
                "test_jagged_dense_*_jagged_output",
                "test_jagged_dense_elementwise_mul",
                "test_jagged_softmax",
            )
        ),
        (
            "test_jagged_dense_elementwise_add_jagged_output",
            "*",
            {"compile.dynamic": "compile-output-mismatch"},
            "compiled code reuses the memory of the returned offsets: the caller's are overwritten",
        ),
        (
            "test_sll_jagged_dense_elementwise_add",
            "*",
            {"compile.dynamic": "compile-mutation-mismatch"},
            "compiled code reuses the memory of the returned offsets: the caller's are overwritten",
        ),
        (
            "test_jagged_dense_elementwise_mul",
            "*",
            {"backward.checkpoint": "checkpoint-mismatch"},
            "the backward unpacks its saved tensors twice",
        ),
        (
            "test_sll_jagged_dense_elementwise_mul_jagged_out",
            "*",
            {"gradcheck.backward": "gradient-missing"},
            "no gradient for the dense factor",
        ),
        (
            "test_pack_segments_v2",
            "*-0",
            dict.fromkeys(_COMPILE, "compile-error")
            | dict.fromkeys((*_FAKE, "opcheck.test_aot_dispatch_dynamic"), "fake-raises"),
            "the presence mask of the meta kernel is on the CPU",
        ),
        (
            "test_group_index_select_dim0",
            "*",
            dict.fromkeys(_COMPILE, "fake-shape-mismatch")
            | {"fake.backward": "fake-dtype-mismatch"},
            "the fake kernels are those of the GPU",
        ),
        (
            "test_batch_index_select_dim0",
            "*",
            {"values.defaults": "default-differs"},
            "the fake kernel lacks a default of the schema",
        ),
        (
            "test_float_to_fused_8bit_rowwise",
            "*",
            {"relations.precision": "precision-mismatch"},
            "reads numbers of any dtype as float32",
        ),
        (
            "test_masked_select_jagged_1d",
            "*",
            {"values.defaults": "signature-differs"},
            "the fake kernel lacks a flag",
        ),
        (
            "test_batch_index_select_dim0",
            "*",
            {"relations.grad_modes": "grad-mode-raises"},
            "the kernel is at the autograd key, which inference mode leaves out",
        ),
    )
)
_FBGEMM += (
    Known(
        "test_fbgemm.py::test_get_source_mask",
        "*",
        {"values.wide_strides": "offset-overflow"},
        _STRIDED,
        by_chance=True,
    ),
)

_HARMONICS = (
    Known(
        "test_torch_harmonics.py::test_attention_in_torch",
        "*-withgrad-*",
        {
            "compile.static": "compile-graph-break",
            "fake.backward": "fake-raises",
            "opcheck.test_aot_dispatch_dynamic": "opcheck-failure",
        },
        "the backward reads values, and cannot be traced",
    ),
)

_BACKWARD_STRIDES = {
    "compile.static": "compile-stride-assert",
    "fake.backward": "fake-stride-mismatch",
}

_CUSTOM_OP_DB = tuple(
    Known(f"test_custom_op_db.py::test_numpy_{name}", cases, codes, reason)
    for name, cases, codes, reason in (
        *(
            (name, "*-transposed-0", STRIDES, "the fake kernel has other strides")
            for name in ("cat", "mul", "mul_scalar", "sort")
        ),
        *(
            (name, "*-withgrad-transposed-0", _BACKWARD_STRIDES, "its backward calls one of those")
            for name in ("cube", "split_copy")
        ),
        (
            "view_copy",
            "*-transposed-0",
            wrong_fake("fake-raises", "compile-error")
            | {"opcheck.test_aot_dispatch_dynamic": "fake-raises"},
            "the fake kernel makes a view that the strides do not allow",
        ),
        ("cat", "*", {"vmap.loop": "vmap-raises"}, "the vmap rule expects one argument"),
    )
)

KNOWN: tuple[Known, ...] = (
    *_BITSANDBYTES,
    *_CUSTOM_OP_DB,
    *_FBGEMM,
    *_HARMONICS,
    *_QUANTO,
    *_SPHERICART,
    *_TORCHAO,
)
