"""Interpolation between grid points, and at them."""

import functools

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
