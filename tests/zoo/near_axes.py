"""Ops on directions and rotations, for which rows near an axis leave few digits."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
CANCELLED = {"relations.precision": "catastrophic-cancellation"}
PRECISE = "Angles are accurate to a few units in the last place."
DIRECTIONS = (tensor(5, 3),)


def _angles(name, angle, said=PRECISE):
    """The angle of each row with the first axis; `angle(cosine, sine)` computes it."""

    def kernel(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != 3 or not x.is_floating_point():
            raise ValueError("rows of three numbers, please")
        length = x.norm(dim=1)
        if not bool((length > 0).all()):
            raise ValueError("rows that are not 0, please")
        return angle(x[:, 0] / length, x[:, 1:].norm(dim=1) / length).contiguous()

    kernel.__doc__ = f"""The angle of each row (N, 3) with the first axis.

    {said}
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda x: x.new_empty(x.shape[0]))
    return op


def _by_cosine(cosine, sine):
    return cosine.clamp(-1, 1).acos()


def _by_both(cosine, sine):
    return torch.atan2(sine, cosine)


@aot(DIRECTIONS, variant_findings=CANCELLED, shown_by="parallel_first")
def angles_by_their_cosine():
    """The arc cosine of a number near 1 has few digits."""
    return _angles("angles_by_their_cosine", _by_cosine)


@aot(DIRECTIONS, twin_of="angles_by_their_cosine")
def angles_by_sine_and_cosine():
    """atan2 is exact everywhere."""
    return _angles("angles_by_sine_and_cosine", _by_both)


@aot(DIRECTIONS)
def angles_without_a_promise():
    """Correct: no docstring promises digits."""
    return _angles("angles_without_a_promise", _by_cosine, "")


def _relaxed(name, left):
    """Numbers after a time; `left(z)` is (1 - exp(-z)) / z."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def relaxed(x: Tensor, rate: Tensor) -> Tensor:
        """x (1 - exp(-rate)) / rate, accurate to a few digits for every rate >= 0; x and rate (N,)."""
        if x.dim() != 1 or x.shape != rate.shape or x.dtype != rate.dtype:
            raise ValueError("two lists of one size and dtype, please")
        if not x.is_floating_point() or not bool((rate >= 0).all()):
            raise ValueError("floating-point numbers, and rates from 0 on, please")
        some = torch.where(rate > 0, rate, torch.ones_like(rate))
        return torch.where(rate > 0, x * left(some), x).contiguous()

    relaxed.register_fake(lambda x, rate: x.new_empty(x.shape))
    return relaxed


RATES = (torch.tensor([2.0, 3.0, -2.5, 1.5]), torch.tensor([0.0, 0.05, 0.5, 20.0]))


@aot(RATES, variant_findings=CANCELLED, shown_by="rate.tiny")
def relaxed_by_a_difference():
    """1 - exp(-z) has few digits for small z."""
    return _relaxed("relaxed_by_a_difference", lambda z: (1 - torch.exp(-z)) / z)


@aot(RATES, twin_of="relaxed_by_a_difference")
def relaxed_by_expm1():
    """torch.expm1 has all of them."""
    return _relaxed("relaxed_by_expm1", lambda z: -torch.expm1(-z) / z)
