"""Ops that number the cells in which numbers lie, on both sides of 0."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
CODE = "truncated-below-zero"
PLACES = (torch.tensor([[0.3, 1.7], [2.2, 0.9], [5.4, 3.1]]), 0.5)
PARTS = (torch.tensor([[0.3, -1.7], [2.2, 0.9], [-5.4, 3.1]]), 0.5)


def _numbers(name, rounded, about, said="any real numbers"):
    """Integers for numbers; `rounded(multiples)` of a size."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def numbers(x: Tensor, size: float) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point() or size <= 0:
            raise ValueError("floating-point numbers (N, D) and a size above 0, please")
        return rounded(x.contiguous() / size).to(torch.int64)

    @numbers.register_fake
    def fake(x, size):
        return x.new_empty((x.shape[0], x.shape[1]), dtype=torch.int64)

    fake.__doc__ = f"""{about}

    x: (N, D), {said}.
    """
    return numbers


CELLS = "The cell (N, D) of a grid in which each number lies; cell 0 goes from 0 to the size."


@aot(PLACES, expected={"relations.below_zero": CODE})
def two_cells_beside_zero_are_one():
    """A cast to integers rounds up below 0."""
    return _numbers("two_cells_beside_zero_are_one", lambda x: x, CELLS)


@aot(PLACES, twin_of="two_cells_beside_zero_are_one")
def cells_beside_zero_are_two():
    """Numbers are rounded down first."""
    return _numbers("cells_beside_zero_are_two", torch.floor, CELLS)


@aot(PLACES)
def cells_begin_at_zero():
    """Numbers below 0 count as in the first cell."""
    return _numbers(
        "cells_begin_at_zero",
        lambda x: x.clamp(min=0),
        f"{CELLS} Numbers below 0 lie in cell 0.",
    )


@aot(PLACES)
def cells_to_the_nearest_line():
    """Halves go to even numbers, on both sides of 0."""
    return _numbers("cells_to_the_nearest_line", torch.round, "The line of a grid nearest to each.")


@aot(PARTS)
def fractions_are_cut_off_as_documented():
    """The docstring says that numbers are rounded toward zero."""
    return _numbers(
        "fractions_are_cut_off_as_documented",
        torch.trunc,
        "Cells (N, D) as multiples of the size, rounded toward zero.",
    )


@aot(PARTS)
def fractions_are_cut_off():
    """No docstring speaks of cells."""
    return _numbers("fractions_are_cut_off", torch.trunc, "Multiples of the size as integers.")


@aot(PLACES, notes={"relations.below_zero": CODE})
def cells_of_numbers_from_zero_on():
    """The sample has no number below 0, and no text allows one."""
    return _numbers("cells_of_numbers_from_zero_on", lambda x: x, CELLS, "how far each has come")


def _counts(name, rounded):
    """How many rows lie in each cell that has some; `rounded(multiples)` of a size."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def counts(x: Tensor, size: float) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point() or size <= 0:
            raise ValueError("floating-point numbers (N, D) and a size above 0, please")
        return torch.unique(rounded(x / size).to(torch.int64), dim=0, return_counts=True)[1]

    @counts.register_fake
    def fake(x, size):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)

    fake.__doc__ = """The number of points in each voxel, in the order of their corners.

    x: (N, D), any real numbers.
    """
    return counts


POINTS = (torch.linspace(0.1, 7.7, 24).reshape(12, 2) % 2.7, 0.5)


@aot(POINTS, expected={"relations.below_zero": CODE})
def counts_two_cells_as_one():
    """The cells on both sides of 0 are one."""
    return _counts("counts_two_cells_as_one", lambda x: x)


@aot(POINTS, twin_of="counts_two_cells_as_one")
def counts_each_cell():
    """Numbers are rounded down first."""
    return _counts("counts_each_cell", torch.floor)


@aot(POINTS)
def counts_cells_from_the_lowest():
    """The first cell begins at the lowest number."""
    return _counts("counts_cells_from_the_lowest", lambda x: x - x.amin(0) if x.numel() else x)
