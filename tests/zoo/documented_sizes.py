"""Ops of points, whose fake kernels know how many numbers a point has, as a docstring says or not."""

from typing import List

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


@specimen((tensor(2, 2, 5, 6), [3, 4]))
def resizes_flow_of_two_channels():
    """Correct: the fake kernel insists on the two channels of the docstring; the kernel does not."""

    @torch.library.custom_op("zoo::resizes_flow_of_two_channels", mutates_args=())
    def resized(flow: Tensor, size: List[int]) -> Tensor:
        """Enlarges a flow (B, 2, H, W) to `size` by the nearest pixels."""
        if flow.dim() != 4 or len(size) != 2 or min(size) < 1 or 0 in flow.shape:
            raise ValueError("a flow with pixels and two sizes of at least 1, please")
        pairs = zip(size, flow.shape[2:], strict=True)
        rows, columns = (torch.arange(new) * old // new for new, old in pairs)
        return flow[:, :, rows[:, None], columns].contiguous()

    @resized.register_fake
    def fake(flow, size):
        torch._check(flow.dim() == 4 and flow.shape[1] == 2)
        return flow.new_empty(flow.shape[0], 2, size[0], size[1])

    return resized
