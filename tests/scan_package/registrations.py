"""Ops whose schema and registrations alone show that something is wrong, and twins that are right."""

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("scanned", "FRAGMENT")


def _define(schema, kernel, key="CPU", fake=None):
    """Register one op from Python, as a library with C++ kernels would."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, kernel, key)
    if fake is not None:
        torch.library.register_fake(f"scanned::{name}", fake, lib=_LIBRARY)


def _like(x, *rest, **more):
    del rest, more
    return torch.empty_like(x)


@torch.library.custom_op("scanned::without_fake", mutates_args=())
def without_fake(x: Tensor) -> Tensor:
    return x * 3


@torch.library.custom_op("scanned::log_scale", mutates_args=())
def log_scale(x: Tensor) -> None:
    float(x.abs().sum())


log_scale.register_fake(lambda x: None)

_define(
    "other_default(Tensor x, float factor=0.5) -> Tensor",
    lambda x, factor=0.5: x * factor,
    fake=lambda x, factor=2.0: torch.empty_like(x),
)
_define(
    "with_default(Tensor x, float factor=0.5) -> Tensor",
    lambda x, factor=0.5: x * factor,
    fake=lambda x, factor=0.5: torch.empty_like(x),
)
_define(
    "lost_argument(Tensor x, bool keepdim=False) -> Tensor",
    lambda x, keepdim=False: x.sum(-1, keepdim),
    fake=lambda x: x.new_empty(x.shape[:-1]),
)
_define("halve_(Tensor x) -> Tensor", lambda x: x / 2, fake=_like)
_define("quarter_(Tensor(a!) x) -> ()", lambda x: x.div_(4) and None, fake=lambda x: None)


@torch.library.custom_op("scanned::count", mutates_args=())
def count(x: Tensor) -> int:
    return x.numel()


count.register_fake(lambda x: x.numel())
count.register_autograd(lambda ctx, grad: None)


@torch.library.custom_op("scanned::total", mutates_args=())
def total(x: Tensor) -> Tensor:
    return x.sum()


total.register_fake(lambda x: x.new_empty(()))


def _keep_shape(ctx, inputs, output):
    ctx.shape = inputs[0].shape


total.register_autograd(lambda ctx, grad: grad.expand(ctx.shape), setup_context=_keep_shape)

_define("shifted(Tensor x) -> Tensor", _like, "Meta")  # first: torch rejects it afterwards
_LIBRARY.impl("shifted", lambda x: x + 1, "CompositeImplicitAutograd")
_define("lowered(Tensor x) -> Tensor", lambda x: x - 1, "CompositeImplicitAutograd")

_define("doubled(Tensor x) -> Tensor", lambda x: x * 2, fake=_like)
_define("doubled.out(Tensor x, *, Tensor(a!) out) -> ()", lambda x, *, out: None, "CUDA")
_define("tripled(Tensor x) -> Tensor", lambda x: x * 3, fake=_like)
_define("tripled.by(Tensor x, float by) -> Tensor", lambda x, by: x * 3 * by, fake=_like)
