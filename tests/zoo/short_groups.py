"""Ops of groups along a row, of which the last may be shorter than the others."""

import functools

import torch
from torch import Tensor
from torch.nn.functional import pad

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
SHORT = {"relations.short_group": "short-group-differs"}
SHORTER = "The last group of a row may be shorter than the others."


def _groups(name, of_groups, said):
    """One number for each group of a row; `of_groups(x, group_size)` computes them."""

    def check(x, group_size):
        if x.dim() != 2 or group_size < 1:
            raise ValueError("rows, and groups of at least one number, please")

    def kernel(x: Tensor, group_size: int) -> Tensor:
        check(x, group_size)
        return of_groups(x, group_size).contiguous()

    kernel.__doc__ = f"A number for each group of `group_size` columns. {said}"
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @op.register_fake
    def _(x, group_size):
        check(x, group_size)
        return x.new_empty(x.shape[0], (x.shape[1] + group_size - 1) // group_size)

    return op


def _filled_up(x, group_size, value=0.0):
    missing = -x.shape[1] % group_size
    return pad(x, (0, missing), value=value).reshape(x.shape[0], -1, group_size)


def _means(x, group_size):
    sums = _filled_up(x, group_size).sum(-1)
    ones = _filled_up(torch.ones_like(x), group_size).sum(-1)
    return sums / ones


ROWS = (tensor(3, 12), 4)


@aot(ROWS, expected=SHORT)
def largest_of_groups_and_zeros():
    """The zeros that fill up the last group count."""
    return _groups(
        "largest_of_groups_and_zeros", lambda x, size: _filled_up(x, size).amax(-1), SHORTER
    )


@aot(ROWS, twin_of="largest_of_groups_and_zeros")
def largest_of_groups():
    """It is filled up with numbers that are less than all others."""
    return _groups(
        "largest_of_groups",
        lambda x, size: _filled_up(x, size, float("-inf")).amax(-1),
        SHORTER,
    )


@aot(ROWS, expected=SHORT)
def means_of_full_groups():
    """Each mean is over as many numbers as a full group has."""
    return _groups("means_of_full_groups", lambda x, size: _filled_up(x, size).mean(-1), SHORTER)


@aot(ROWS, twin_of="means_of_full_groups")
def means_of_short_groups():
    """Each mean is over the numbers that a group has."""
    return _groups("means_of_short_groups", _means, SHORTER)


@aot(ROWS)
def means_of_padded_groups():
    """Correct: the docstring says that zeros count."""
    return _groups(
        "means_of_padded_groups",
        lambda x, size: _filled_up(x, size).mean(-1),
        "A shorter last group is padded with zeros, which count.",
    )


@aot(ROWS)
def sums_by_size():
    """Correct: the docstring says that sums are divided by the size."""
    return _groups(
        "sums_by_size",
        lambda x, size: _filled_up(x, size).sum(-1) / size,
        "The last group may be shorter. Each is its sum divided by `group_size`.",
    )
