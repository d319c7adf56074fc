"""Formulas and kernels registered in the wrong place."""

import torch
from torch import Tensor

from pytest_customop import tensor
from pytest_customop.checks import builtin_checks

from .registry import library, specimen

MATRIX = tensor(4, 3)
# Of an op without a formula.
# What an op without a formula gets.
EVERY_CHECK = [
    check.name
    for check in builtin_checks()
    if check.default and (check.runs_without_autograd or check.applies(False, False, True, True))
    if not (check.needs or check.integer_tensors or check.reference)
    if not (check.errors or check.several_devices)
]


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def _square(name, key):
    lib = library()
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, _Square.apply, key)
    torch.library.register_fake(f"zoo::{name}", torch.empty_like, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen((MATRIX,), expected={"opcheck.test_autograd_registration": "autograd-registration"})
def formula_in_the_cpu_kernel():
    """An autograd.Function is registered as the CPU kernel: gradients come from there."""
    return _square("formula_in_the_cpu_kernel", "CPU")


@specimen(
    (MATRIX,),
    expected={
        "opcheck.test_autograd_registration": "autograd-registration",
        "opcheck.test_faketensor": "fake-metadata-mismatch",
        "compile.static": "compile-gradient-mismatch",
        "compile.dynamic": "compile-gradient-mismatch",
    },
    skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"},
    requires_grad=[True],
)
def gradients_in_eager_mode_alone():
    """The CPU kernel is differentiated by itself; compiled, the op has no gradients."""
    return _square("gradients_in_eager_mode_alone", "CPU")


@specimen((MATRIX,), notes={"opcheck.test_autograd_registration": "autograd-registration"})
def kernel_for_inference_alone():
    """Correct: autograd follows the CPU kernel, and a comment says that it is for inference."""
    lib = library()
    # Squares, for inference only.
    lib.define("kernel_for_inference_alone(Tensor x) -> Tensor")
    lib.impl("kernel_for_inference_alone", lambda x: x * x, "CPU")
    torch.library.register_fake(
        "zoo::kernel_for_inference_alone", lambda x: torch.empty_like(x), lib=lib
    )
    return torch.ops.zoo.kernel_for_inference_alone.default


@specimen(
    (MATRIX,),
    twin_of=("formula_in_the_cpu_kernel", "gradients_in_eager_mode_alone"),
)
def formula_at_autograd():
    """A CPU kernel without gradients, and the formula through register_autograd."""
    lib = library()
    lib.define("formula_at_autograd(Tensor x) -> Tensor")
    lib.impl("formula_at_autograd", lambda x: x * x, "CPU")
    name = "zoo::formula_at_autograd"
    torch.library.register_fake(name, torch.empty_like, lib=lib)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    torch.library.register_autograd(name, backward, setup_context=setup, lib=lib)
    return torch.ops.zoo.formula_at_autograd.default


@specimen(
    (tensor(0, 3),),
    expected=dict.fromkeys(EVERY_CHECK, "eager-raises"),
)
def raises_on_no_rows():
    """The kernel raises where there are no rows."""

    @torch.library.custom_op("zoo::raises_on_no_rows", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        return x.max(0).values

    largest.register_fake(lambda x: x.new_empty(x.shape[1]))
    return largest


@specimen((tensor(0, 3),), twin_of="raises_on_no_rows")
def takes_no_rows():
    """Where there are no rows, the largest is minus infinity."""

    @torch.library.custom_op("zoo::takes_no_rows", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        return torch.cat([x, x.new_full((1, x.shape[1]), -torch.inf)]).max(0).values

    largest.register_fake(lambda x: x.new_empty(x.shape[1]))
    return largest
