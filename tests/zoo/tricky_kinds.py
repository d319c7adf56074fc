"""Correct ops that are easy to misjudge: returned arguments, kinds of tensors, randomness, gradients."""

import functools
from typing import Optional

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry
from .registry import library

specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)
LIMIT = "checker-limit"
SPARSE = {
    "compile.dynamic": registry.since("2.13", LIMIT),
    "compile.static": registry.since("2.13", LIMIT),
    "fake.symbolic": "no-second-size",
    "opcheck.test_schema": LIMIT,
}
GENERATOR = {
    "compile.dynamic": LIMIT,
    "compile.static": LIMIT,
    "opcheck.test_aot_dispatch_dynamic": LIMIT,
}
LEFT_OUT = {"gradcheck.backward": "left-out", "gradcheck.double": "left-out"}


def defined(name, signature, kernel, fake, tags=(), key="CPU"):
    """An op of the zoo's library, whose kernel may do what `custom_op` does not let through."""
    lib = library()
    lib.define(f"{name}{signature}", tags=tags)
    lib.impl(name, torch.no_grad()(kernel), key)
    torch.library.register_fake(f"zoo::{name}", fake, lib=lib)
    return getattr(torch.ops.zoo, name).default


@specimen((MATRIX, None), (MATRIX, tensor(4, 3)))
def optional_mutable_argument():
    """Correct: the argument that it would write to may be None."""

    @torch.library.custom_op("zoo::optional_mutable_argument", mutates_args={"mask"})
    def scale(x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        if mask is not None:
            mask.copy_(x > 0)
        return x * 2

    scale.register_fake(lambda x, mask=None: torch.empty_like(x))
    return scale


@specimen((tensor(8),), (tensor(3, 4),))
def wants_a_multiple_of_four():
    """Correct: the number of elements must be a multiple of four, and both kernels say so."""

    def refuse(x):
        if x.numel() % 4:
            raise ValueError(f"{x.numel()} elements are no multiple of four")

    @torch.library.custom_op("zoo::wants_a_multiple_of_four", mutates_args=())
    def quarters(x: Tensor) -> Tensor:
        refuse(x)
        return x.reshape(-1, 4).sum(1)

    @quarters.register_fake
    def _(x):
        refuse(x)
        return x.new_empty(x.numel() // 4)

    return quarters


STORED_ONLY = (torch.uint16, torch.uint32, torch.uint64)


@specimen(
    *((torch.tensor([[7, 0, 300], [2, 7, 41]]).to(dtype),) for dtype in STORED_ONLY),
    *((tensor(3, 4, dtype=dtype, low=0, high=4096),) for dtype in STORED_ONLY),
)
def scales_wide_unsigned():
    """Correct: of dtypes that torch stores, and neither compares nor sorts."""

    @torch.library.custom_op("zoo::scales_wide_unsigned", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        return x.to(torch.float64) / 4096

    scaled.register_fake(lambda x: torch.empty_like(x, dtype=torch.float64))
    return scaled


@specimen((MATRIX,))
def output_at_an_offset():
    """Correct: the output begins in the middle of its storage, and the fake one too."""

    @torch.library.custom_op("zoo::output_at_an_offset", mutates_args=())
    def padded(x: Tensor) -> Tensor:
        buffer = x.new_zeros(x.numel() + 2)
        return buffer[2:].copy_(x.flatten())

    padded.register_fake(lambda x: x.new_empty(x.numel() + 2)[2:])
    return padded


@specimen((tensor(6), tensor(values=[0, 2, 2, 1, 0, 2])))
def adds_up_in_any_order():
    """Correct: adds up in an order that is not fixed, and is tagged so."""
    return defined(
        "adds_up_in_any_order",
        "(Tensor x, Tensor index) -> Tensor",
        lambda x, index: x.new_zeros(3).index_add(0, index, x),
        lambda x, index: x.new_empty(3),
        (torch.Tag.nondeterministic_seeded,),
    )


@specimen((MATRIX, 0.5, None), (MATRIX, 0.5, torch.Generator().manual_seed(3)), skips=GENERATOR)
def takes_a_generator():
    """Correct: draws from the generator that it is given, or from the default one."""
    return defined(
        "takes_a_generator",
        "(Tensor x, float p, Generator? generator=None) -> Tensor",
        lambda x, p, generator=None: x * (torch.rand(x.shape, generator=generator) > p),
        lambda x, p, generator=None: torch.empty_like(x),
        (torch.Tag.nondeterministic_seeded,),
    )


@specimen((MATRIX,), dtypes=[torch.float8_e4m3fn], skips={"opcheck.test_schema": LIMIT})
def eight_bit_floats():
    """Correct: takes and returns fp8, for which torch has few kernels."""

    @torch.library.custom_op("zoo::eight_bit_floats", mutates_args=())
    def half(x: Tensor) -> Tensor:
        return (x.to(torch.float32) * 0.5).to(x.dtype)

    half.register_fake(lambda x: torch.empty_like(x))
    return half


@specimen((tensor(4, 8),))
def quantises_to_eight_bits():
    """Correct: an fp8 output, an integer one and a scale."""

    @torch.library.custom_op("zoo::quantises_to_eight_bits", mutates_args=())
    def quantise(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        scale = x.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        whole = (x / scale).round().to(torch.int8)
        return (x / scale).to(torch.float8_e4m3fn), whole, scale

    @quantise.register_fake
    def _(x):
        eight = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        return eight, torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0], 1)

    return quantise


@specimen((torch.eye(3).to_sparse(), tensor(3, 3)), skips=SPARSE)
def sparse_argument():
    """Correct: adds a sparse matrix to a dense one."""

    def kernel(a, b):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError("matrices of one shape and dtype, please")
        return b + a.to_dense()

    return defined(
        "sparse_argument",
        "(Tensor a, Tensor b) -> Tensor",
        kernel,
        lambda a, b: torch.empty_like(b),
        key="CompositeExplicitAutograd",
    )


@specimen((tensor(5),), gradcheck="straight-through estimator", skips=LEFT_OUT)
def straight_through():
    """Correct: rounds, and hands the gradient through as it is, on purpose."""

    @torch.library.custom_op("zoo::straight_through", mutates_args=())
    def rounded(x: Tensor) -> Tensor:
        return x.round()

    rounded.register_fake(lambda x: torch.empty_like(x))
    rounded.register_autograd(lambda ctx, grad: grad.clone())
    return rounded


@specimen(
    (tensor(5),),
    gradcheck="straight-through estimator",
    reference=lambda x: x + (x.round() - x).detach(),
    skips=LEFT_OUT,
)
def straight_through_with_a_reference():
    """Correct: the same, with a reference that has the gradient that is meant."""

    @torch.library.custom_op("zoo::straight_through_with_a_reference", mutates_args=())
    def rounded(x: Tensor) -> Tensor:
        return x.round()

    rounded.register_fake(lambda x: torch.empty_like(x))
    rounded.register_autograd(lambda ctx, grad: grad.clone())
    return rounded


@specimen((MATRIX,), skips={"opcheck.test_aot_dispatch_dynamic": LIMIT})
def outputs_of_every_kind():
    """Correct: an integer, a float, a boolean and an integer output; one of them differentiable."""

    @torch.library.custom_op("zoo::outputs_of_every_kind", mutates_args=())
    def operator(x: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return x.argmax(1), x * 2, x > 0, x.dim()

    @operator.register_fake
    def _(x):
        rows = x.new_empty(x.shape[0], dtype=torch.int64)
        return rows, torch.empty_like(x), torch.empty_like(x, dtype=torch.bool), x.dim()

    operator.register_autograd(lambda ctx, index, grad, positive, dims: grad * 2)
    return operator


@specimen(
    (tensor(4, 6, dtype=torch.float8_e4m3fn), tensor(4, 1, low=0.5, high=2)),
    skips={"opcheck.test_schema": LIMIT},
)
def rows_of_float8_with_scales():
    """Correct: numbers of eight bits, in which torch does not multiply, beside a float32 scale."""

    @torch.library.custom_op("zoo::rows_of_float8_with_scales", mutates_args=())
    def real(codes: Tensor, scale: Tensor) -> Tensor:
        if codes.dtype != torch.float8_e4m3fn or scale.dtype != torch.float32:
            raise TypeError("codes of float8_e4m3fn and scales of float32, please")
        if codes.dim() != 2 or scale.shape != (codes.shape[0], 1):
            raise ValueError("rows and a scale for each, please")
        return codes.contiguous().float() * scale

    real.register_fake(lambda codes, scale: scale.new_empty(codes.shape))
    return real
