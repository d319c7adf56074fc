"""Ops whose docstrings say that results are sorted."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
UNSORTED = {"relations.sorted_results": "result-not-sorted"}
POINTS = (
    torch.tensor(
        [[0.5, 2.5], [3.0, -1.0], [-2.5, 4.0], [1.5, 1.5], [-4.0, -3.5], [2.0, 6.0], [0, -6]]
    ),
)
SAID = """The cells of points.

    Args:
        points: (N, 2), finite.

    Returns:
        int64 (N, 2), the cell of each point, in lexicographic order.
    """


def _cells(name, key, said=SAID):
    """An op of points; `key(cells, width)` is what cells are sorted by."""

    def kernel(points: Tensor) -> Tensor:
        if points.dim() != 2 or points.shape[1] != 2 or not points.is_floating_point():
            raise ValueError("points, please")
        if not bool(points.isfinite().all()) or bool((points.abs() > 2**20).any()):
            raise ValueError("points near the origin, please")
        cells = points.double().mul(100).floor().to(torch.int64)
        if not len(cells):
            return cells
        moved = cells - cells.amin(0)
        return cells[key(moved, int(moved[:, 1].max()) + 1).argsort(stable=True)]

    kernel.__doc__ = said
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda points: points.new_empty(points.shape, dtype=torch.int64))
    return op


@aot(POINTS, expected=UNSORTED)
def cells_by_a_narrow_key():
    """The key of a far cell does not fit."""
    return _cells(
        "cells_by_a_narrow_key",
        lambda cells, width: (cells[:, 0] * width + cells[:, 1]).to(torch.int32) % 2**24,
    )


@aot(POINTS, twin_of="cells_by_a_narrow_key")
def cells_by_a_wide_key():
    """The key of any cell fits."""
    return _cells("cells_by_a_wide_key", lambda cells, width: cells[:, 0] * width + cells[:, 1])
