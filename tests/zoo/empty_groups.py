"""Ops that reduce groups, and what they give for one without members."""

import functools
import itertools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
MISMATCH = {"relations.empty_group": "empty-group-mismatch"}
ZONES = (
    torch.tensor([0.5, 1.5, -0.25, 2.0, 3.0]),
    torch.tensor([0, 0, 1, 2, 1]),
    3,
)
NAN = "The mean of the numbers of each zone; NaN for a zone that has none."


def _means(name, finish, said=NAN):
    """`finish(totals, counts)` are the means."""

    def kernel(x: Tensor, zones: Tensor, num_zones: int) -> Tensor:
        check(x, zones, num_zones)
        if zones.numel() and not 0 <= int(zones.min()) <= int(zones.max()) < num_zones:
            raise IndexError("zones are from 0 to num_zones - 1")
        totals = x.new_zeros(num_zones).index_add(0, zones, x)
        counts = x.new_zeros(num_zones).index_add(0, zones, torch.ones_like(x))
        return finish(totals, counts)

    def check(x, zones, num_zones):
        if x.dim() != 1 or x.shape != zones.shape or num_zones < 1 or zones.dtype != torch.int64:
            raise ValueError("numbers (N,), and a zone for each, please")
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError("float32 or float64, please")

    kernel.__doc__ = said
    means = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @means.register_fake
    def _(x, zones, num_zones):
        check(x, zones, num_zones)
        return x.new_empty(num_zones)

    return means


def _or_nan(totals, counts):
    return (totals / counts.clamp(min=1)).masked_fill(counts == 0, torch.nan)


@aot(ZONES, expected=MISMATCH)
def empty_zones_have_a_mean_of_zero():
    """The count is at least 1, so that nothing is divided by 0."""
    return _means(
        "empty_zones_have_a_mean_of_zero", lambda totals, counts: totals / counts.clamp(min=1)
    )


@aot(ZONES, twin_of="empty_zones_have_a_mean_of_zero")
def empty_zones_have_no_mean():
    """Puts NaN there."""
    return _means("empty_zones_have_no_mean", _or_nan)


@aot(ZONES)
def empty_zones_have_zero_as_documented():
    """The docstring says that they give 0."""
    return _means(
        "empty_zones_have_zero_as_documented",
        lambda totals, counts: totals / counts.clamp(min=1),
        "The mean of the numbers of each zone. Zones without numbers give 0.",
    )


@aot(ZONES)
def empty_zones_of_which_nothing_is_said():
    """What the docstring says of nothing is about the input."""
    return _means(
        "empty_zones_of_which_nothing_is_said",
        _or_nan,
        "The mean of the numbers of each zone. With no numbers at all, the result is not 0.",
    )


BAGS = (torch.tensor([0.5, 1.5, -0.25, 2.0]), torch.tensor([0, 2, 2, 4]))


def _largest(name, start):
    """The largest number of each bag, from `start` on."""

    def kernel(x: Tensor, offsets: Tensor) -> Tensor:
        """The largest number of each bag.

        x: (N,) numbers.
        offsets: (B + 1,) where each bag begins, and where the last ends. Empty bags give -inf.
        """
        check(x, offsets)
        ends = offsets.tolist()
        if ends[0] != 0 or ends[-1] != len(x) or ends != sorted(ends):
            raise ValueError("offsets from 0 to the number of elements, please")
        found = [max([start, *x[begin:end].tolist()]) for begin, end in itertools.pairwise(ends)]
        return x.new_tensor(found)

    def check(x, offsets):
        if x.dim() != 1 or offsets.dim() != 1 or offsets.dtype != torch.int64:
            raise ValueError("numbers and offsets along one dim, please")
        torch._check(offsets.shape[0] >= 1)
        if not x.is_floating_point():
            raise TypeError("floating-point numbers, please")

    largest = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @largest.register_fake
    def _(x, offsets):
        check(x, offsets)
        return x.new_empty(offsets.shape[0] - 1)

    return largest


@aot(BAGS, expected=MISMATCH, skips={"fake.symbolic": "no-second-size"})
def empty_bags_have_the_lowest_number():
    """Starts from a large negative number."""
    return _largest("empty_bags_have_the_lowest_number", -1e4)


@aot(BAGS, skips={"fake.symbolic": "no-second-size"}, twin_of="empty_bags_have_the_lowest_number")
def empty_bags_have_minus_infinity():
    """Starts from minus infinity."""
    return _largest("empty_bags_have_minus_infinity", -torch.inf)
