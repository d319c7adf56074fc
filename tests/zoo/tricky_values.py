"""Correct ops that are easy to misjudge: by their values, dtypes and gradients."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import TORCH, library, specimen

MATRIX = tensor(4, 3)
NO_FLOAT64 = {"gradcheck.backward": "no-float64", "gradcheck.double": "no-float64"}


def _op(name, kernel, backward=None):
    """An op of one tensor; `backward(x, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return kernel(x)

    op.register_fake(lambda x: torch.empty_like(x))
    if backward is not None:

        def setup(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        op.register_autograd(
            lambda ctx, grad: backward(*ctx.saved_tensors, grad), setup_context=setup
        )
    return op


@specimen(
    (tensor(values=[4.0, -1.0, 9.0, -2.0]),),
    skips={
        "opcheck.test_aot_dispatch_dynamic": "checker-limit",
    },
    notes={"values.finite": "result-is-nan"},
)
def nan_outputs():
    """Correct: the square root of a negative number is NaN."""
    return _op("nan_outputs", torch.sqrt)


# Inductor of torch 2.4 generates no code for complex tensors without dims.
ANY_DIM = [(tensor(4, 3),), (tensor(),)][: 2 if TORCH >= (2, 13) else 1]


@specimen(*ANY_DIM, dtypes=[torch.complex64, torch.complex128])
def complex_gradient():
    """Correct: a complex product with the right conjugation."""
    return _op("complex_gradient", lambda z: z * z * z, lambda z, grad: 3 * (z * z).conj() * grad)


@specimen((tensor(4, 3),), dtypes=[torch.float16], skips=NO_FLOAT64)
def half_only():
    """Correct: a kernel for half precision and nothing else."""

    def kernel(x):
        if x.dtype != torch.float16:
            raise TypeError(f"float16 only, not {x.dtype}")
        return x * 2

    return _op("half_only", kernel, lambda x, grad: grad * 2)


@specimen((MATRIX,), skips=NO_FLOAT64)
def refuses_float64():
    """Correct: raises on float64."""

    def kernel(x):
        if x.dtype == torch.float64:
            raise TypeError("float32 at most")
        return x.sin()

    return _op("refuses_float64", kernel, lambda x, grad: grad * x.cos())


@specimen((MATRIX,), skips={"gradcheck.backward": "float32-internal"})
def computes_in_float32():
    """Correct: takes float64, and computes in float32."""

    def kernel(x):
        return x.float().sin().to(x.dtype)

    return _op("computes_in_float32", kernel, lambda x, grad: grad * x.cos())


@specimen((tensor(3, 256, 256),))
def large_relu():
    """Correct: a kink that some of 196608 inputs are near to."""
    return _op("large_relu", torch.relu, lambda x, grad: grad * (x > 0))


@specimen((MATRIX,))
def declared_random():
    """Correct: random, and tagged so."""

    lib = library()
    tags = (torch.Tag.nondeterministic_seeded,)
    lib.define("declared_random(Tensor x) -> Tensor", tags=tags)

    @torch.no_grad()
    def dropout(x):
        return x * (torch.rand_like(x) > 0.5)

    lib.impl("declared_random", dropout, "CPU")
    torch.library.register_fake("zoo::declared_random", torch.empty_like, lib=lib)
    return torch.ops.zoo.declared_random.default


@specimen((tensor(4, 3, dtype=torch.int64, low=-9, high=9),))
def integers_only():
    """Correct: integers in and out."""
    return _op("integers_only", lambda x: x * x)


@specimen((MATRIX,))
def materialised_grad():
    """Correct: a sum, whose gradient is expanded and not dense."""

    @torch.library.custom_op("zoo::materialised_grad", mutates_args=())
    def total(x: Tensor) -> Tensor:
        return x.sum()

    total.register_fake(lambda x: x.new_empty(()))

    def setup(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    total.register_autograd(lambda ctx, grad: grad.expand(ctx.shape), setup_context=setup)
    return total
