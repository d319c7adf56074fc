"""Ops with a number that marks missing elements, for which 0 or NaN must do as well as any other."""

import functools
from typing import List, Optional

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
BROKEN = {"relations.marker": "marker-not-honoured"}
CODES = (torch.tensor([[3, 1, 4, 9, 5], [9, 2, 6, 5, 3]]), 9)
GRID = (100 + torch.arange(12.0).reshape(3, 4),)


def _shares(name, kept):
    """How often each code occurs among those that `kept(codes, missing)` keeps."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def shares(codes: Tensor, missing_code: Optional[int] = None) -> Tensor:
        """The share of each code from 0 to 9 in each row (N, C), those that are missing left out.

        Args:
            codes: (N, C) integers from 0 to 9.
            missing_code: code that is left out; None leaves out none.
        """
        if codes.dim() != 2 or codes.is_floating_point() or codes.dtype == torch.bool:
            raise ValueError("integers (N, C), please")
        counted = torch.nn.functional.one_hot(codes.long(), 10).float()
        counted = counted * kept(codes, missing_code)[..., None]
        return counted.sum(1) / counted.sum((1, 2)).clamp(min=1)[:, None]

    shares.register_fake(
        lambda codes, missing_code=None: codes.new_empty(codes.shape[0], 10, dtype=torch.float32)
    )
    return shares


def _but_for(codes, missing):
    return torch.ones_like(codes) if missing is None else codes != missing


@aot(CODES, expected=BROKEN)
def takes_code_0_for_none():
    """A missing code of 0 counts as no missing code."""
    return _shares("takes_code_0_for_none", lambda codes, missing: _but_for(codes, missing or None))


@aot(CODES, twin_of="takes_code_0_for_none")
def leaves_out_any_code():
    """A missing code of 0 is left out as any other."""
    return _shares("leaves_out_any_code", _but_for)


def _column_means(name, valid, said):
    """The means of columns over the elements that `valid(values, nodata)` keeps; `said` of nodata."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(values: Tensor, nodata: float = -9999.0) -> Tensor:
        if values.dim() != 2 or not values.is_floating_point():
            raise ValueError("a matrix of floating-point numbers, please")
        kept = valid(values, nodata)
        count = kept.sum(0)
        mean = torch.where(kept, values, 0).sum(0) / count.clamp(min=1)
        return mean.masked_fill(count == 0, nodata).to(values.dtype)

    @means.register_fake
    def fake(values, nodata=-9999.0):
        return values.new_empty(values.shape[1])

    fake.__doc__ = f"""The means of columns.

    Args:
        values: (N, C) numbers.
        nodata: number that marks missing elements{said}; of a column without others, the result.
    """
    return means


@aot(GRID, expected=BROKEN)
def counts_missing_elements_if_they_are_nan():
    """No element equals NaN, so that none is missing."""
    return _column_means(
        "counts_missing_elements_if_they_are_nan",
        lambda values, nodata: values != nodata,
        ", any float, NaN included",
    )


@aot(GRID, twin_of="counts_missing_elements_if_they_are_nan")
def leaves_out_missing_elements_if_they_are_nan():
    """Elements that are NaN are missing, too."""
    return _column_means(
        "leaves_out_missing_elements_if_they_are_nan",
        lambda values, nodata: ~((values == nodata) | (values.isnan() & (nodata != nodata))),
        ", any float, NaN included",
    )


@aot(GRID, twin_of="counts_missing_elements_if_they_are_nan")
def promises_nothing_of_nan():
    """No docstring says that NaN may mark missing elements."""
    return _column_means("promises_nothing_of_nan", lambda values, nodata: values != nodata, "")


BANDS = ([(torch.arange(6) * 7 % 11 + 2 + at).to(torch.int16).reshape(2, 3) for at in range(3)],)


def _means_of_bands(name, is_given):
    """The mean of scenes where they are valid; `is_given(nodata)`: whether it marks missing ones."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(scenes: List[Tensor], nodata: Optional[float] = None) -> Tensor:
        """The mean (H, W) of scenes (H, W) at each place, without those that equal `nodata` there.

        It is -1 where there is none.
        """
        check(scenes)
        stack = torch.stack([scene.double() for scene in scenes])
        valid = stack != nodata if is_given(nodata) else torch.ones_like(stack, dtype=torch.bool)
        count = valid.sum(0)
        total = torch.where(valid, stack, 0.0).sum(0)
        return torch.where(count > 0, total / count.clamp(min=1), -1.0)

    def check(scenes):
        if not scenes or any(scene.shape != scenes[0].shape for scene in scenes):
            raise ValueError("scenes of one size, please")
        if any(scene.dtype != torch.int16 or scene.dim() != 2 for scene in scenes):
            raise TypeError("scenes (H, W) of int16, please")

    @means.register_fake
    def _(scenes, nodata=None):
        check(scenes)
        height, width = scenes[0].shape
        return scenes[0].new_empty((height, width), dtype=torch.float64)

    return means


@aot(BANDS, expected=BROKEN)
def scenes_with_zero_as_no_marker():
    """The marker of a list of integer tensors is a float, and 0.0 is taken for none."""
    return _means_of_bands("scenes_with_zero_as_no_marker", bool)


@aot(BANDS, twin_of="scenes_with_zero_as_no_marker")
def scenes_with_zero_as_a_marker():
    """Only None is no marker."""
    return _means_of_bands("scenes_with_zero_as_a_marker", lambda nodata: nodata is not None)


@aot(([torch.tensor([[3, 1, 4], [9, 2, 6]], dtype=torch.int16)], float("nan")))
def scenes_of_integers_with_nan_as_a_marker():
    """NaN marks none of the integers, and is no number of theirs."""
    return _means_of_bands(
        "scenes_of_integers_with_nan_as_a_marker", lambda nodata: nodata is not None
    )


@aot((torch.arange(12.0).reshape(3, 4), torch.tensor([[0.2, 1.4], [1.7, 2.1], [2.0, 0.6]])))
def fills_points_beyond_a_grid():
    """`nodata` is what points get that are beyond the grid, and marks none of the points."""

    @torch.library.custom_op("zoo::fills_points_beyond_a_grid", mutates_args=())
    def sampled(grid: Tensor, points: Tensor, nodata: float = -9999.0) -> Tensor:
        """The element (P,) of a grid (H, W) that is nearest to each point (P, 2), in rows and columns.

        A point beyond the grid gets nodata.
        """
        check(grid, points)
        places = points.round().long()
        sizes = torch.tensor(grid.shape)
        inside = ((places >= 0) & (places < sizes)).all(1)
        places = torch.where(inside[:, None], places, 0)
        return torch.where(inside, grid[places[:, 0], places[:, 1]], nodata)

    def check(grid, points):
        if grid.dim() != 2 or 0 in grid.shape or points.dim() != 2 or points.shape[1] != 2:
            raise ValueError("a grid (H, W) and points (P, 2), please")
        if grid.dtype != torch.float32 or points.dtype != torch.float32:
            raise TypeError("float32, please")

    @sampled.register_fake
    def _(grid, points, nodata=-9999.0):
        check(grid, points)
        return grid.new_empty(points.shape[0])

    return sampled
