"""Ops of torch.library.custom_op that return an argument, at which torch raises."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor
from pytest_customop.checks import builtin_checks

from .registration import EVERY_CHECK
from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
# What looks at variants of sizes, of an op without a formula.
ON_SHAPES = [
    check.name
    for check in builtin_checks()
    if check.name in EVERY_CHECK and "shape" in check.variants
]


def _dense(name, finish):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def dense(x: Tensor) -> Tensor:
        return finish(x.contiguous())

    dense.register_fake(lambda x: x.new_empty(x.shape))
    return dense


@aot((MATRIX,), expected=dict.fromkeys(EVERY_CHECK, "output-alias-rejected"))
def custom_op_that_returns_its_argument():
    """Returns its argument where that is contiguous, at which torch.library.custom_op raises."""
    return _dense("custom_op_that_returns_its_argument", lambda x: x)


def _without_empty(name, empty):
    """Returns `empty(x)` where `x` has no elements."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x.contiguous() * 2 if x.numel() else empty(x)

    double.register_fake(lambda x: x.new_empty(x.shape))
    return double


@aot(
    (MATRIX,),
    variant_findings=dict.fromkeys(ON_SHAPES, "output-alias-rejected"),
    shown_by="empty0",
)
def custom_op_that_returns_its_empty_argument():
    """Returns its argument where that is empty, at which torch.library.custom_op raises."""
    return _without_empty("custom_op_that_returns_its_empty_argument", lambda x: x)


@aot(
    (MATRIX,),
    twin_of=(
        "custom_op_that_returns_its_argument",
        "custom_op_that_returns_its_empty_argument",
    ),
)
def custom_op_that_returns_an_empty_copy():
    """Returns a copy of its argument where that is empty."""
    return _without_empty("custom_op_that_returns_an_empty_copy", torch.clone)
