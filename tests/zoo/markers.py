"""Ops with a number that marks missing elements, for which 0 or NaN must do as well as any other."""

import functools
from typing import Optional

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
