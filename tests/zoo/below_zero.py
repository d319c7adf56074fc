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


listed = functools.partial(aot, skips={"fake.symbolic": "no-second-size"})
TIMES = torch.tensor([1_700_000_000, 1_700_003_599, 1_700_007_261])
SECONDS = "int64 seconds since 1970-01-01, negative before"


def _of_times(name, computed, about, said=SECONDS):
    """Integers for times in seconds; `computed(times)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def of_times(times: Tensor) -> Tensor:
        if times.dtype != torch.int64:
            raise TypeError("int64 seconds, please")
        return computed(times).contiguous()

    @of_times.register_fake
    def fake(times):
        return times.new_empty(times.shape)

    fake.__doc__ = f"""{about}

    times: {said}.
    """
    return of_times


DAYS = "The day in which each time lies, from 1970-01-01 on."
HOURS = "The hour of the day, 0 to 23, in which each time lies."


def _days(times, rounding):
    return torch.div(times, 86_400, rounding_mode=rounding)


@listed((TIMES,), expected={"relations.below_zero": CODE})
def days_before_1970_are_one_late():
    """The quotient is cut off."""
    return _of_times("days_before_1970_are_one_late", lambda t: _days(t, "trunc"), DAYS)


@listed((TIMES,), twin_of="days_before_1970_are_one_late")
def days_before_1970_are_their_own():
    """The quotient is rounded down."""
    return _of_times("days_before_1970_are_their_own", lambda t: _days(t, "floor"), DAYS)


@listed((TIMES,), expected={"relations.below_zero": CODE})
def hours_before_1970_are_negative():
    """The remainder has the sign of the time."""
    hours = lambda t: torch.div(torch.fmod(t, 86_400), 3600, rounding_mode="trunc")  # noqa: E731
    return _of_times("hours_before_1970_are_negative", hours, HOURS)


@listed((TIMES,), twin_of="hours_before_1970_are_negative")
def hours_before_1970_are_hours():
    """The remainder has the sign of the divisor."""
    hours = lambda t: torch.remainder(t, 86_400) // 3600  # noqa: E731
    return _of_times("hours_before_1970_are_hours", hours, HOURS)


@listed((TIMES,))
def days_of_times_from_1970_on():
    """No text speaks of negative times."""
    said = "int64 seconds since 1970-01-01"
    return _of_times("days_of_times_from_1970_on", lambda t: _days(t, "trunc"), DAYS, said)


@listed((TIMES,))
def days_before_1970_are_missing():
    """The text about the times says that negative ones are missing."""
    days = lambda t: torch.where(t < 0, -1, t // 86_400)  # noqa: E731
    said = "int64 seconds since 1970-01-01; negative: missing, the result is -1"
    return _of_times("days_before_1970_are_missing", days, DAYS, said)


@listed((TIMES,))
def days_before_1970_count_as_the_first():
    """Negative times are allowed, and lie in day 0."""
    return _of_times(
        "days_before_1970_count_as_the_first",
        lambda t: t.clamp(min=0) // 86_400,
        f"{DAYS} Earlier times lie in day 0.",
    )
