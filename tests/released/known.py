"""Confirmed findings in the pinned versions: `docs/released-packages.md` shows each in plain torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

_FAKE = ("fake.forward", "opcheck.test_faketensor")
_COMPILE = ("compile.static", "compile.dynamic")
REGISTRATION = {"opcheck.test_autograd_registration": "autograd-registration"}
LAYOUTS = {"values.layouts": "layout-dependent-result"}
AUTOCAST = {"compile.autocast": "autocast-fake-mismatch"}


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
        codes: the finding expected of each check.
        reason: what is wrong.
    """

    test: str
    cases: str
    codes: Mapping[str, str]
    reason: str


def expected(nodeid: str) -> tuple[str, str] | None:
    """The code and the reason of the failure that is known of an item, if one is."""
    test, _, parameters = nodeid.rpartition("/")[2].partition("[")
    case, _, check = parameters.rstrip("]").rpartition("-")
    for one in KNOWN:
        if fnmatch.fnmatchcase(test, one.test) and fnmatch.fnmatchcase(case, one.cases):
            code = one.codes.get(check)
            if code is not None:
                return code, one.reason
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
                ("test_quantize_blockwise", "*-nograd-[bf]*"),
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
                "test_gemv_4bit",
                "test_int8_mm_dequant",
                "test_int8_scaled_mm",
                "test_int8_vectorwise_dequant",
                "test_quantize_4bit",
            )
        ),
        ("test_int8_vectorwise_quant", "*-withgrad-plain", REGISTRATION, _EAGER_ONLY),
        (
            "test_ge[mv][mv]_4bit",
            "cpu-float32-nograd-0",
            AUTOCAST,
            "the real kernel follows autocast, the fake one does not",
        ),
        (
            "test_int8_linear_matmul*",
            "*",
            {"compile.autocast": "compile-autocast-mismatch"},
            "under autocast the exact integer product is computed in bfloat16",
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

_QUANTO = (
    Known("test_quanto.py::test_qbytes_mm*", "*-withgrad-*", REGISTRATION, _EAGER_ONLY),
    Known("test_quanto.py::test_quantize_symmetric", "*-withgrad-*3", REGISTRATION, _EAGER_ONLY),
    Known(
        "test_quanto.py::test_qbytes_mm",
        "*",
        AUTOCAST,
        "the real kernel follows autocast, the fake one does not",
    ),
)

_SPHERICART = (
    Known(
        "test_sphericart.py::*_with_hessians",
        "*-withgrad-*",
        _THIRD,
        "the backward always raises: gradients of unused outputs arrive as zeros, not None",
    ),
    Known(
        "test_sphericart.py::*_with_gradients",
        "*-withgrad-*",
        {"gradcheck.double": "backward-raises"},
        "the second derivative calls the backward that always raises",
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

KNOWN: tuple[Known, ...] = (*_BITSANDBYTES, *_QUANTO, *_SPHERICART, *_TORCHAO)
