"""Ops of points, whose fake kernels know how many numbers a point has, as a docstring says or not."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

HARDCODED = {
    "fake.symbolic": "fake-size-hardcoded",
    "compile.dynamic": "compile-output-mismatch",
}
POINTS = (tensor(7, 3), 0.5)


def _snapped(name, said, size):
    """Points moved to the corners of a grid; its fake kernel gives each `size(points)` numbers."""

    def kernel(points: Tensor, edge: float) -> Tensor:
        if points.dim() != 2 or not edge > 0:
            raise ValueError("points and a positive edge, please")
        return ((points / edge).floor() * edge).contiguous()

    kernel.__doc__ = said
    snapped = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    snapped.register_fake(lambda points, edge: points.new_empty(points.shape[0], size(points)))
    return snapped


@specimen(POINTS, expected=HARDCODED)
def grid_of_three():
    """The fake kernel gives every point three numbers."""
    said = "Moves points to the corners of a grid."
    return _snapped("grid_of_three", said, lambda points: 3)


@specimen(
    POINTS,
    notes=HARDCODED,
    variant_notes={"fake.forward": "fake-shape-mismatch"},
    shown_by="odd",
)
def grid_of_documented_three():
    """Correct: the docstring says that there are three."""
    said = "Moves `points` [N, 3] to the corners of a grid."
    return _snapped("grid_of_documented_three", said, lambda points: 3)


@specimen(POINTS, twin_of=("grid_of_three", "grid_of_documented_three"))
def grid_of_any_numbers():
    """The fake kernel takes the number from the points."""
    said = "Moves `points` [N, D] to the corners of a grid."
    return _snapped("grid_of_any_numbers", said, lambda points: points.shape[1])
