"""Fake kernels of ops whose output sizes depend on data."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")
ROWS = tensor(5, 3)


def _found(name, count_of):
    """The places of elements that are not zero; `count_of(x)` is the fake kernel's number of them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return x.nonzero().contiguous()

    operator.register_fake(lambda x: x.new_empty(count_of(x), x.dim(), dtype=torch.int64))
    return operator


def _dynamic(**bounds):
    return lambda x: torch.library.get_ctx().new_dynamic_size(**bounds)


@specimen((ROWS,), expected={"fake.data_dependent": "fake-size-range"})
def promises_two_hits():
    """The fake kernel promises at least two rows; there can be one or none."""
    return _found("promises_two_hits", _dynamic(min=2))


@specimen((ROWS,), expected={"fake.data_dependent": "fake-size-range"})
def promises_one_hit():
    """The fake kernel promises at least one row; there can be none."""
    return _found("promises_one_hit", _dynamic(min=1))


@specimen(
    (ROWS,),
    expected={"fake.data_dependent": "fake-size-ignores-data"},
)
def promises_all_hits():
    """The fake kernel promises a row for each element, which is true for the sample."""
    return _found("promises_all_hits", lambda x: x.numel())


@specimen((ROWS,), twin_of=("promises_two_hits", "promises_one_hit", "promises_all_hits"))
def promises_no_hits():
    """The fake kernel promises no more than that the number of rows is one."""
    return _found("promises_no_hits", _dynamic())


def _rows_with_a_sum(name, **bounds):
    """The sum and then the rows of a mask: as many rows as hits, and one more."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(x: Tensor, mask: Tensor) -> Tensor:
        return torch.cat([x.sum(0, keepdim=True), x[mask]])

    @rows.register_fake
    def _(x, mask):
        count = torch.library.get_ctx().new_dynamic_size(**bounds)
        return x.new_empty(count, x.shape[1])

    return rows


MASKED = (ROWS, tensor(5, dtype=torch.bool))


@specimen(MASKED, expected={"fake.data_dependent": "fake-size-range"})
def promises_too_few_rows():
    """The fake kernel promises at most as many rows as there are, and there is one more."""
    return _rows_with_a_sum("promises_too_few_rows", min=1, max=5)


@specimen(MASKED, twin_of="promises_too_few_rows")
def promises_a_true_minimum():
    """The fake kernel promises one row at least, which is true."""
    return _rows_with_a_sum("promises_a_true_minimum", min=1)


def _repeated(name, count_of):
    """Each row as often as its count says."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def repeated(x: Tensor, counts: Tensor) -> Tensor:
        return x.repeat_interleave(counts, 0)

    repeated.register_fake(lambda x, counts: x.new_empty(count_of(x), x.shape[1]))
    return repeated


COUNTS = (ROWS, tensor(5, dtype=torch.int64, low=1, high=3))


@specimen(COUNTS, expected={"fake.data_dependent": "fake-size-ignores-data"})
def promises_as_many_as_here():
    """The fake kernel promises the number of rows that the sample happens to give."""
    return _repeated("promises_as_many_as_here", lambda x: x.shape[0] + 2)


@specimen(COUNTS, twin_of="promises_as_many_as_here")
def promises_as_many_as_counted():
    """The fake kernel leaves the number of rows open."""
    return _repeated("promises_as_many_as_counted", _dynamic())


def _usable(name, count_of):
    """The places of the rows that have no NaN."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def usable(x: Tensor) -> Tensor:
        return x.isfinite().all(1).nonzero().flatten().clone()

    usable.register_fake(lambda x: x.new_empty(count_of(x), dtype=torch.int64))
    return usable


@specimen((ROWS,), expected={"fake.data_dependent": "fake-size-ignores-data"})
def promises_that_all_are_usable():
    """The fake kernel promises every row, and leaves out none with a NaN."""
    return _usable("promises_that_all_are_usable", lambda x: x.shape[0])


@specimen((ROWS,), twin_of="promises_that_all_are_usable")
def promises_the_usable_ones():
    """The fake kernel leaves the number of rows open."""
    return _usable("promises_the_usable_ones", _dynamic())
