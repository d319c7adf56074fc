"""Ops that compute something else than the function that their author names as the reference."""

import functools
from typing import List, Sequence

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")
MATRIX = tensor(4, 3)


def _gelu(name, approximate):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gelu(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x, approximate=approximate)

    gelu.register_fake(lambda x: torch.empty_like(x))
    return gelu


@specimen(
    (MATRIX,),
    reference=torch.nn.functional.gelu,
    expected={"reference.values": "reference-mismatch"},
)
def approximates_the_reference():
    """A function that is nearly the one it should be."""
    return _gelu("approximates_the_reference", "tanh")


@specimen((MATRIX,), reference=torch.nn.functional.gelu, twin_of="approximates_the_reference")
def computes_the_reference():
    """The function that it should be."""
    return _gelu("computes_the_reference", "none")


def _running_sum(name, rate):
    @torch.library.custom_op(f"zoo::{name}", mutates_args={"total"})
    def add(x: Tensor, total: Tensor) -> None:
        total.mul_(rate).add_(x)

    add.register_fake(lambda x, total: None)
    return add


def _decay(x, total):
    total.copy_(0.9 * total + x)


@specimen((MATRIX, MATRIX), reference=_decay, expected={"reference.values": "reference-mismatch"})
def writes_other_values():
    """Writes other values into its buffer than it should; it returns nothing."""
    return _running_sum("writes_other_values", 0.99)


@specimen((MATRIX, MATRIX), reference=_decay, twin_of="writes_other_values")
def writes_the_right_values():
    """Writes into its buffer what it should."""
    return _running_sum("writes_the_right_values", 0.9)


def _scaled_list(name, scale):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(xs: Sequence[Tensor]) -> List[Tensor]:
        return [x * scale(index) for index, x in enumerate(xs)]

    scaled.register_fake(lambda xs: [torch.empty_like(x) for x in xs])
    return scaled


def _by_position(xs):
    return [x * (index + 1) for index, x in enumerate(xs)]


@specimen(
    ([MATRIX, tensor(2)],),
    reference=_by_position,
    expected={"reference.values": "reference-mismatch"},
)
def one_of_a_list_is_wrong():
    """The second tensor of the list that it returns is wrong."""
    return _scaled_list("one_of_a_list_is_wrong", lambda index: 1)


@specimen(([MATRIX, tensor(2)],), reference=_by_position, twin_of="one_of_a_list_is_wrong")
def a_list_is_right():
    """Every tensor of the list that it returns is right."""
    return _scaled_list("a_list_is_right", lambda index: index + 1)


def _ternary(name, passes):
    """Rounds to -1, 0 and 1; its gradient is that of a clamp, passed where `passes(x)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def ternary(x: Tensor) -> Tensor:
        return x.round().clamp(-1, 1)

    ternary.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * passes(x)

    ternary.register_autograd(backward, setup_context=setup)
    return ternary


def _straight_through(x):
    clipped = x.clamp(-1, 1)
    return clipped + (x.round().clamp(-1, 1) - clipped).detach()


STRAIGHT_THROUGH = {
    "skips": {"gradcheck.backward": "left-out", "gradcheck.double": "left-out"},
    "reference": _straight_through,
    "gradcheck": "a straight-through estimator: the gradient is not the derivative",
}


@specimen(
    (tensor(20, low=-2, high=2),),
    **STRAIGHT_THROUGH,
    expected={"reference.gradients": "reference-gradient-mismatch"},
)
def straight_through_without_clipping():
    """A straight-through estimator that passes gradients where it clips."""
    return _ternary("straight_through_without_clipping", torch.ones_like)


@specimen(
    (tensor(20, low=-2, high=2),), **STRAIGHT_THROUGH, twin_of="straight_through_without_clipping"
)
def straight_through_estimator():
    """A straight-through estimator that passes no gradients where it clips."""
    return _ternary("straight_through_estimator", lambda x: x.abs() <= 1)
