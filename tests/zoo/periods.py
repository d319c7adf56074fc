"""Ops of coordinates in periodic boxes and of angles, and ops with such arguments that are not periodic."""

import functools
import math
from typing import Tuple

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
PERIOD = {"relations.period": "periods-have-influence"}


def _distances(name, nearest, doc=""):
    """The distance of each pair of points; `nearest(d, box)` is what is added up for a difference."""

    def kernel(x: Tensor, box: Tensor) -> Tensor:
        if x.dim() != 2 or box.shape != x.shape[1:]:
            raise ValueError("points, and an edge for each of their coordinates, please")
        return nearest(x[:, None] - x[None], box).square().sum(-1).sqrt()

    kernel.__doc__ = doc
    distances = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    distances.register_fake(
        lambda x, box: x.new_empty(
            (x.shape[0], x.shape[0]), dtype=torch.promote_types(x.dtype, box.dtype)
        )
    )
    return distances


def _one_box(d, box):
    d = torch.where(d > box / 2, d - box, d)
    return torch.where(d < -box / 2, d + box, d)


BOX = (tensor(6, 3, low=0.5, high=6.5), torch.tensor([7.0, 8.0, 9.0]))


@aot(BOX, expected=PERIOD)
def nearest_image_of_one_box():
    """Takes off one box at most: wrong for points that have left the box twice."""
    return _distances("nearest_image_of_one_box", _one_box)


@aot(BOX, twin_of="nearest_image_of_one_box")
def nearest_image_of_any_box():
    """Takes off as many boxes as there are."""
    return _distances("nearest_image_of_any_box", lambda d, box: d - box * torch.round(d / box))


_BINS = "Distances to the nearest images, for bins of [0, reach). Points need not be folded back."


def _binned(name, nearest):
    """How many pairs of points have a distance in each of 4 bins; `nearest` as in `_distances`."""

    def kernel(x: Tensor, box: float, reach: float) -> Tensor:
        if x.dim() != 2 or x.dtype != torch.float32 or not 0 < 2 * reach <= box:
            raise ValueError("points, and a reach of at most half the box, please")
        first, second = torch.triu_indices(len(x), len(x), 1)
        d = nearest(x[first] - x[second], torch.tensor(box)).square().sum(-1).sqrt()
        bins = (d[d < reach] / reach * 4).long().clamp(max=3)
        return torch.bincount(bins, minlength=4)

    kernel.__doc__ = _BINS
    binned = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    binned.register_fake(lambda x, box, reach: x.new_empty(4, dtype=torch.int64))
    return binned


BINS = (tensor(12, 3, low=0.5, high=6.5), 7.0, 3.5)


@aot(BINS, expected=PERIOD)
def bins_of_the_image_of_one_box():
    """Takes off one box at most; the range in the docstring is that of the bins."""
    return _binned("bins_of_the_image_of_one_box", _one_box)


@aot(BINS, twin_of="bins_of_the_image_of_one_box")
def bins_of_the_nearest_image():
    """Takes off as many boxes as there are."""
    return _binned("bins_of_the_nearest_image", lambda d, box: d - box * torch.round(d / box))


@aot(BOX)
def nearest_image_within_the_box():
    """Correct: takes off one box at most, and the docstring says where points must be."""
    return _distances(
        "nearest_image_within_the_box",
        _one_box,
        "Distances to the nearest images. Points must be inside of the periodic box.",
    )


@aot(BOX)
def distances_in_units_of_a_box():
    """Correct: the box is a scale, and nothing is periodic."""
    return _distances("distances_in_units_of_a_box", lambda d, box: d / box)


def _turns(name, difference):
    """How far one heading is from another; `difference(d)` brings it between -pi and pi."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def turned(heading: Tensor, wanted: Tensor) -> Tensor:
        return difference(wanted - heading).contiguous()

    turned.register_fake(
        lambda heading, wanted: heading.new_empty(
            torch.broadcast_shapes(heading.shape, wanted.shape),
            dtype=torch.promote_types(heading.dtype, wanted.dtype),
        )
    )
    return turned


def _one_turn(d):
    d = torch.where(d > math.pi, d - 2 * math.pi, d)
    return torch.where(d < -math.pi, d + 2 * math.pi, d)


HEADINGS = (tensor(5, low=-1.4, high=1.4), tensor(5, low=-1.4, high=1.4))


@aot(HEADINGS, expected=PERIOD)
def turns_once():
    """Takes off one turn at most."""
    return _turns("turns_once", _one_turn)


@aot(HEADINGS, twin_of="turns_once")
def turns_as_often_as_needed():
    """Takes off all turns."""
    return _turns("turns_as_often_as_needed", lambda d: torch.atan2(d.sin(), d.cos()))


def _phases(name, remainder):
    """A wave at a phase, in a table of one period."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def wave(x: Tensor, period: float) -> Tensor:
        if not period > 0:
            raise ValueError("a positive period, please")
        return (remainder(x, period) / period - 0.5).square().contiguous()

    wave.register_fake(lambda x, period: x.new_empty(x.shape))
    return wave


WAVE = (tensor(8, low=0.1, high=2.9), 3.0)


@aot(WAVE, expected=PERIOD)
def phase_by_fmod():
    """`fmod` is negative for negative numbers."""
    return _phases("phase_by_fmod", torch.fmod)


@aot(WAVE, twin_of="phase_by_fmod")
def phase_by_remainder():
    """`remainder` is not."""
    return _phases("phase_by_remainder", torch.remainder)


@aot((tensor(8, 3, low=0.0, high=9.0), 4.0))
def bins_that_clamp():
    """Correct: a grid of cells, whose outermost take all that is outside."""

    @torch.library.custom_op("zoo::bins_that_clamp", mutates_args=())
    def bins(x: Tensor, cell: float) -> Tensor:
        if not cell > 0:
            raise ValueError("a positive size of cells, please")
        return torch.floor(x / cell).clamp(0, 3).to(torch.int64).contiguous()

    bins.register_fake(lambda x, cell: x.new_empty(x.shape, dtype=torch.int64))
    return bins


@aot((tensor(8, low=0.1, high=2.9), 3.0))
def remainder_and_turns():
    """Correct: a remainder, and how many periods were taken off."""

    @torch.library.custom_op("zoo::remainder_and_turns", mutates_args=())
    def split(x: Tensor, period: float) -> Tuple[Tensor, Tensor]:
        if not period > 0:
            raise ValueError("a positive period, please")
        return torch.remainder(x, period).contiguous(), torch.floor(x / period).contiguous()

    split.register_fake(lambda x, period: (x.new_empty(x.shape), x.new_empty(x.shape)))
    return split


ROWS = torch.tensor([[-7.1, 443.2512], [1.3, -29.9704], [12.2, 16.3233]])


@aot(
    (ROWS, torch.tensor([2.5, 0.001])),
    requires_grad=[True],
    skips=dict.fromkeys(("gradcheck.backward", "gradcheck.double"), "not-smooth"),
)
def remainder_of_periods_with_gradients():
    """Correct: how many periods were taken off has no gradient, however short the period is."""

    @torch.library.custom_op("zoo::remainder_of_periods_with_gradients", mutates_args=())
    def split(x: Tensor, period: Tensor) -> Tuple[Tensor, Tensor]:
        """The distance to the nearest whole number of periods, and that number, without a gradient.

        A period of 0 is none.
        """
        if x.dim() != 2 or period.shape != x.shape[1:] or not bool((period >= 0).all()):
            raise ValueError("rows, and a period for each column, please")
        count = torch.where(period > 0, torch.round(x / torch.where(period > 0, period, 1)), 0)
        return (x - count * period).contiguous(), count.contiguous()

    @split.register_fake
    def _(x, period):
        dtype = torch.promote_types(x.dtype, period.dtype)
        return x.new_empty(x.shape, dtype=dtype), x.new_empty(x.shape, dtype=dtype)

    split.register_autograd(
        lambda ctx, grad, _: (grad, -(grad * ctx.saved_tensors[0]).sum(0)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )
    return split


def _looked_up(name, whole):
    """A table that repeats, between its entries; `whole(at)` is the entry before a place."""

    def check(table, at):
        if table.dim() != 1 or at.dim() != 1 or not table.is_floating_point():
            raise ValueError("a table and places, please")
        if table.dtype != at.dtype:
            raise TypeError("places of the table's dtype, please")

    def looked_up(table: Tensor, at: Tensor) -> Tensor:
        """A table between its entries.

        Args:
            table: (N,), N >= 1
            at: (M,), any numbers. The table repeats with period 1.
        """
        check(table, at)
        if not len(table):
            raise ValueError("a table with entries, please")
        scaled = at * len(table)
        before = whole(scaled)
        share = scaled - before
        return table[before % len(table)] * (1 - share) + table[(before + 1) % len(table)] * share

    looked_up = torch.library.custom_op(f"zoo::{name}", looked_up, mutates_args=())

    @looked_up.register_fake
    def _(table, at):
        check(table, at)
        return at.new_empty(at.shape)

    return looked_up


PLACES = (tensor(6), torch.tensor([0.21, 0.52, 0.93, 0.64]))


@aot(PLACES, expected=PERIOD)
def looks_up_toward_zero():
    """Cuts off the digits of a place below 0, so that the share is negative."""
    return _looked_up("looks_up_toward_zero", lambda at: at.to(torch.int64))


@aot(PLACES, twin_of="looks_up_toward_zero")
def looks_up_below():
    """Rounds down."""
    return _looked_up("looks_up_below", lambda at: at.floor().to(torch.int64))


def _on_a_circle(name, column):
    """A table of eight values around the globe; `column(x)` is the column of each number of columns."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def looked_up(values: Tensor, longitude: Tensor) -> Tensor:
        """The values (N,) at longitudes (P,), from a table of eight.

        Args:
            values: (8,) at multiples of 45 degrees.
            longitude: (P,) float64, in degrees: any number, which counts modulo 360.
        """
        if values.shape != (8,) or longitude.dim() != 1 or longitude.dtype != torch.float64:
            raise ValueError("eight values, and longitudes in float64, please")
        x = longitude / 45
        place = column(x)
        share = (x - place).to(values.dtype)
        at = place.long()
        return values[at % 8] * (1 - share) + values[(at + 1) % 8] * share

    looked_up.register_fake(lambda values, longitude: values.new_empty(longitude.shape[0]))
    return looked_up


GLOBE = (tensor(8), tensor(6, dtype=torch.float64, low=0, high=359))


@aot(GLOBE, expected=PERIOD)
def column_of_a_longitude_towards_0():
    """Below 0, the column is the next one, and the share is negative."""
    return _on_a_circle("column_of_a_longitude_towards_0", torch.trunc)


@aot(GLOBE, twin_of="column_of_a_longitude_towards_0")
def column_of_a_longitude_below():
    """The column below, everywhere."""
    return _on_a_circle("column_of_a_longitude_below", torch.floor)
