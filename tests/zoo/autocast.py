"""Ops that compute by the ambient autocast state."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry
from .registry import since

specimen = functools.partial(registry.specimen, backend="aot_eager")
PAIR = (tensor(4, 3), tensor(3, 5))


def _product(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(a: Tensor, b: Tensor) -> Tensor:
        return kernel(a, b)

    product.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[1]))
    return product


def _lowered(op):
    """Registers an autocast rule, where torch has them: 2.4 does not."""
    if hasattr(torch.library, "register_autocast"):
        torch.library.register_autocast(op, "cpu", torch.bfloat16)
    return op


@specimen(PAIR, notes={"compile.autocast": "autocast-fake-mismatch"})
def autocast_inside():
    """Returns bfloat16 under autocast, because mm does; the fake kernel says float32."""
    return _product("autocast_inside", torch.mm)


@specimen(PAIR)
def autocast_off_inside():
    """Correct: computes with autocast switched off."""

    def kernel(a, b):
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(a, b)

    return _product("autocast_off_inside", kernel)


@specimen(PAIR)
def casts_back():
    """Correct: returns the dtype it was given; under autocast with the precision of bfloat16."""
    return _product("casts_back", lambda a, b: torch.mm(a, b).to(a.dtype))


def _square(name, in_half):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return (x.half() ** 2).to(x.dtype) if in_half() else x**2

    square.register_fake(lambda x: torch.empty_like(x))
    return square


LARGE = tensor(4, 3, low=300, high=400)


@specimen((LARGE,), expected={"compile.autocast": "compile-autocast-mismatch"})
def asks_for_autocast():
    """Computes in half precision if autocast is on, where 300 overflows; in compiled code it is off."""
    return _square("asks_for_autocast", lambda: torch.is_autocast_enabled("cpu"))


@specimen((LARGE,), twin_of="asks_for_autocast")
def registers_autocast():
    """Computes in the dtype it is given, which an autocast rule has lowered to bfloat16 before."""
    return _lowered(_square("registers_autocast", lambda: False))


def _sums_of_rows(name, dtype_of_sums):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(x: Tensor) -> Tensor:
        return x.sum(-1)

    sums.register_fake(lambda x: x.new_empty(x.shape[:-1], dtype=dtype_of_sums(x)))
    return _lowered(sums)


@specimen(
    (tensor(4, 3),),
    expected={"compile.autocast": since("2.5", "autocast-fake-mismatch")},
)
def autocast_rule_and_a_fake_of_float32():
    """Has an autocast rule for bfloat16; the fake kernel says float32 whatever it is given."""
    return _sums_of_rows("autocast_rule_and_a_fake_of_float32", lambda x: torch.float32)


@specimen((tensor(4, 3),), twin_of="autocast_rule_and_a_fake_of_float32")
def autocast_rule_and_a_fake_that_follows():
    """Has an autocast rule for bfloat16; the fake kernel says the dtype it is given."""
    return _sums_of_rows("autocast_rule_and_a_fake_that_follows", lambda x: x.dtype)
