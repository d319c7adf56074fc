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
