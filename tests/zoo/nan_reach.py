"""Means of moving windows whose docstrings speak of NaN."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
REACH = {"relations.nan_reach": "nan-reaches-others"}
SERIES = (tensor(2, 12), 3)


def _series(name, said, sums):
    """An op of series; `sums(x, n)` is the sum of each window."""

    def kernel(x: Tensor, n: int) -> Tensor:
        if x.dim() != 2 or n < 1:
            raise ValueError("series and a positive length, please")
        return (sums(x.double(), n) / n).to(x.dtype).contiguous()

    kernel.__doc__ = said
    series = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    series.register_fake(lambda x, n: x.new_empty(x.shape))
    return series


def _padded(x, n):
    return torch.nn.functional.pad(x, (n - 1, 0))


def _each(x, n):
    return _padded(x, n).unfold(1, n, 1).sum(2) if x.numel() else x


def _running(x, n):
    total = x.new_zeros(len(x))
    padded, sums = _padded(x, n), torch.empty_like(x)
    for step in range(x.shape[1]):
        total = total + padded[:, step + n - 1]
        sums[:, step] = total
        total = total - padded[:, step]
    return sums


MEAN = (
    "The mean of the last `n` numbers of [B, T], 0 before the first; NaN where one of them is NaN."
)


@aot(SERIES, expected=REACH)
def mean_of_a_running_sum():
    """A NaN never leaves the sum."""
    return _series("mean_of_a_running_sum", MEAN, _running)


@aot(SERIES, twin_of="mean_of_a_running_sum")
def mean_of_each_window():
    """Every window is summed up anew."""
    return _series("mean_of_each_window", MEAN, _each)


@aot(SERIES)
def running_sum_that_says_so():
    """Correct: the docstring says what becomes of a NaN."""
    said = "The mean of the last `n` numbers of [B, T]; from a NaN on, all later ones are NaN."
    return _series("running_sum_that_says_so", said, _running)


@aot(SERIES)
def running_sum_that_says_nothing():
    """Nothing is said about NaN."""
    return _series("running_sum_that_says_nothing", "The mean of the last `n` of [B, T].", _running)


@aot((tensor(2, 80), 2))
def fading_mean():
    """Correct: an influence that only becomes too small to be seen."""

    def faded(x, n):
        total, sums = x.new_zeros(len(x)), torch.empty_like(x)
        for step in range(x.shape[1]):
            total = total + (x[:, step] - total) / n
            sums[:, step] = total
        return sums

    return _series(
        "fading_mean", "A mean that fades with `1 / n`; NaN is not treated apart.", faded
    )


@aot((tensor(2, 6),))
def rows_that_add_up_to_one():
    """Correct: the docstring says that a NaN spoils its row, also where results are 0 in any case."""

    @torch.library.custom_op("zoo::rows_that_add_up_to_one", mutates_args=())
    def op(x: Tensor) -> Tensor:
        """Rows with the larger numbers shared out, the others 0. A row with NaN, or +inf, becomes NaN."""
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows, please")
        if not x.numel():
            return torch.empty_like(x, memory_format=torch.contiguous_format)
        z = x.double()
        falling = z.sort(1, descending=True).values
        over = (falling.cumsum(1) - 1) / torch.arange(1, x.shape[1] + 1)
        count = (falling > over).sum(1, keepdim=True).clamp(min=1)
        return (z - over.gather(1, count - 1)).clamp(min=0).to(x.dtype).contiguous()

    op.register_fake(lambda x: x.new_empty(x.shape))
    return op
