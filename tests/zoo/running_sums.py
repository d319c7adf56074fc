"""Ops with windows and groups along a sequence, and ops that look as if numbers far away cost digits."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
LOST = {"relations.running_sums": "earlier-numbers-cost-digits"}
SERIES = (tensor(2, 20), 5)


def _windows(name, computed, doc="The variance in each window of a series (N, T)."):
    """An op on windows along the last dim; `computed(x, window)` gives (N, T - window + 1)."""

    def kernel(x: Tensor, window: int) -> Tensor:
        check(x, window)
        return computed(x, window).to(x.dtype).contiguous()

    def check(x, window):
        if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("series of float32 or float64, please")
        torch._check(2 <= window <= x.shape[1], lambda: "a window that fits, please")

    def fake(x, window):
        check(x, window)
        return x.new_empty(x.shape[0], x.shape[1] - window + 1)

    kernel.__doc__ = doc
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(fake)
    return op


def _difference(sums, window):
    sums = torch.nn.functional.pad(sums, (1, 0))
    return sums[:, window:] - sums[:, :-window]


def _variance_of_sums(x, window):
    x = x - x[:, :1]
    mean = _difference(x.cumsum(1), window) / window
    return (_difference((x * x).cumsum(1), window) / window - mean * mean).clamp(min=0)


@aot(SERIES, expected=LOST)
def variances_by_sums_of_squares():
    """Windows are differences of running sums of squares, relative to the first number."""
    return _windows("variances_by_sums_of_squares", _variance_of_sums)


@aot(SERIES, twin_of="variances_by_sums_of_squares")
def variances_window_by_window():
    """Each window by itself."""
    return _windows(
        "variances_window_by_window", lambda x, window: x.unfold(1, window, 1).var(-1, correction=0)
    )


DIGITS = (
    "The variance in each window of a series (N, T), to six digits, at any level of the series."
)


@aot(SERIES, expected=LOST)
def variances_by_sums_in_double():
    """The same in float64: it needs numbers that are farther apart, of which the docstring speaks."""
    return _windows(
        "variances_by_sums_in_double",
        lambda x, window: _variance_of_sums(x.double(), window),
        DIGITS,
    )


@aot(SERIES, twin_of="variances_by_sums_in_double")
def variances_of_windows_in_double():
    """Each window by itself, with the same docstring."""
    return _windows(
        "variances_of_windows_in_double",
        lambda x, window: x.double().unfold(1, window, 1).var(-1, correction=0),
        DIGITS,
    )


@aot(SERIES)
def means_by_sums_in_double():
    """Correct: a running sum in float64 of numbers, not of squares."""
    return _windows(
        "means_by_sums_in_double",
        lambda x, window: _difference(x.double().cumsum(1), window) / window,
        "The mean in each window of a series (N, T).",
    )


@aot(SERIES)
def largest_of_sliding_windows():
    """Correct: the largest number of each window."""
    return _windows(
        "largest_of_sliding_windows",
        lambda x, window: x.unfold(1, window, 1).amax(-1),
        "The largest number in each window of a series (N, T).",
    )


def _on_rows(name, computed, doc):
    kernel = lambda x: computed(x).contiguous()  # noqa: E731
    kernel.__annotations__ = {"x": Tensor, "return": Tensor}
    kernel.__doc__ = doc
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda x: x.new_empty(x.shape))
    return op


@aot((tensor(3, 8),))
def rows_with_a_limited_norm():
    """Correct: one number far away makes the norm exceed the limit, and all numbers small."""

    def limited(x):
        norm = torch.linalg.vector_norm(x, dtype=torch.float64)
        return (x * (1e5 / norm.clamp(min=1e5))).to(x.dtype)

    return _on_rows("rows_with_a_limited_norm", limited, "The numbers with a norm of at most 1e5.")


@aot((tensor(3, 8),))
def steps_between_numbers():
    """Correct: differences of neighbours, which the first number changes in one place."""
    return _on_rows(
        "steps_between_numbers",
        lambda x: torch.diff(x, dim=-1, prepend=x[..., :1]),
        "The steps from each number to the next.",
    )
