"""Interpolation between grid points, and at them."""

import functools
from typing import Tuple

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
TABLE = (torch.tensor([1.0, 4.0, 2.0, 5.0, 3.0]), torch.tensor([0.3, 1.7, 2.2, 3.4]))


def _read(name, weighted):
    """Numbers of a table at places between its entries; `weighted(table, x)` reads them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def read(table: Tensor, x: Tensor) -> Tensor:
        if table.dim() != 1 or x.dim() != 1 or table.dtype != x.dtype or not len(table):
            raise ValueError("a table of one row, and places in it, please")
        if not table.is_floating_point():
            raise TypeError("floating-point numbers, please")
        return weighted(table, x.nan_to_num().clamp(0, len(table) - 1)).contiguous()

    read.register_fake(lambda table, x: x.new_empty(x.shape[0]))
    return read


@aot(TABLE, expected={"relations.whole_numbers": "lost-at-whole-numbers"})
def nothing_at_grid_points():
    """At an entry itself both weights are 0."""

    def weighted(table, x):
        low, high = x.floor(), x.ceil()
        return table[low.long()] * (high - x) + table[high.long()] * (x - low)

    return _read("nothing_at_grid_points", weighted)


@aot(TABLE, twin_of="nothing_at_grid_points")
def entries_at_grid_points():
    """The weights of both entries add up to 1 everywhere."""

    def weighted(table, x):
        low = x.floor()
        share = x - low
        after = (low.long() + 1).clamp(max=len(table) - 1)
        return table[low.long()] * (1 - share) + table[after] * share

    return _read("entries_at_grid_points", weighted)


@aot(TABLE)
def nearest_entry():
    """Correct: the nearest entry, the even one in the middle."""
    return _read("nearest_entry", lambda table, x: table[x.round().long()])


@aot((torch.linspace(-7.4, 7.4, 40).reshape(4, 10), 6.0))
def rounded_range_of_rows():
    """Correct: numbers of a threshold's magnitude are left out, on both sides of 0."""

    @torch.library.custom_op("zoo::rounded_range_of_rows", mutates_args=())
    def scaled(x: Tensor, threshold: float) -> Tuple[Tensor, Tensor]:
        """Codes of rows (N, C) of float32, and their ranges, without numbers of at least `threshold`."""
        if x.dim() != 2 or x.dtype != torch.float32 or 0 in x.shape or threshold <= 0:
            raise ValueError("rows of float32 and a threshold above 0, please")
        kept = torch.where(x.abs() < threshold, x, 0).contiguous()
        ranges = kept.abs().amax(1).clamp(min=1e-6)
        return (kept / ranges[:, None] * 127).round().to(torch.int8), ranges

    @scaled.register_fake
    def fake(x, threshold):
        return x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[0])

    return scaled
