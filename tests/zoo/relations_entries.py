"""Ops whose docstrings say that entries of a batch are independent, or may come without a batch dim."""

import functools
from typing import Optional

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])

INDEPENDENT = {"relations.independent_entries": "entry-depends-on-others"}
UNBATCHED = {"relations.unbatched": "unbatched-differs"}
LABELS = torch.tensor([[1, 1, 2, 0], [3, 2, 2, 1], [2, 3, 1, 0]])


def _collapsed(name, *, resets):
    """Labels without those that equal the one before."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def collapsed(labels: Tensor) -> Tensor:
        """Repeated labels as -1; each row is collapsed on its own."""
        check(labels)
        found = labels.clone()
        previous = -1
        for row in range(labels.shape[0]):
            previous = -1 if resets else previous
            for at, label in enumerate(labels[row].tolist()):
                if label == previous:
                    found[row, at] = -1
                previous = label
        return found

    def check(labels):
        if labels.dim() != 2 or labels.dtype != torch.int64:
            raise ValueError("expected rows of labels, as int64")

    @collapsed.register_fake
    def _(labels):
        check(labels)
        return torch.empty_like(labels)

    return collapsed


@aot((LABELS,), expected=INDEPENDENT)
def carries_the_label_before():
    """Compares the first label of a row with the last one of the row before."""
    return _collapsed("carries_the_label_before", resets=False)


@aot((LABELS,), twin_of="carries_the_label_before")
def resets_the_label_before():
    """Forgets the row before."""
    return _collapsed("resets_the_label_before", resets=True)


def _limited(name, largest):
    """Rows cut off at 3 times their mean magnitude."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def limited(x: Tensor) -> Tensor:
        """Numbers beyond three times the mean magnitude cut off; rows are independent."""
        check(x)
        limit = 3 * largest(x.abs().mean(1, keepdim=True))
        return x.clamp(-limit, limit)

    def check(x):
        if x.dim() != 2 or 0 in x.shape or not x.is_floating_point():
            raise ValueError("expected rows")

    @limited.register_fake
    def _(x):
        check(x)
        return torch.empty_like(x)

    return limited


def _rows():
    rows = torch.linspace(-1, 1, 40).reshape(4, 10)
    rows[2, 4] = 25.0
    return rows * torch.tensor([[1.0], [0.5], [1.0], [0.4]])


@aot((_rows(),), twin_of="carries_the_label_before")
def limits_each_row():
    """The limit of each row is its own."""
    return _limited("limits_each_row", lambda means: means)


@aot((_rows(),), twin_of="carries_the_label_before")
def limits_all_rows_alike():
    """The limit is that of the largest row: a docstring that is wrong in most orders is not believed."""
    return _limited("limits_all_rows_alike", lambda means: means.amax())


@aot((tensor(5, 3), torch.arange(5)), twin_of="carries_the_label_before")
def segments_of_one_row():
    """Correct: the segments, which its docstring calls independent, are not the rows."""

    def check(x, segment):
        if x.dim() != 2 or segment.shape != x.shape[:1] or segment.dtype != torch.int64:
            raise ValueError("expected rows, and the segment of each")

    @torch.library.custom_op("zoo::segments_of_one_row", mutates_args=())
    def shares(x: Tensor, segment: Tensor) -> Tensor:
        """What each row has of its segment; each segment is normalised on its own.

        x: (N, D)
        segment: (N,) int64, 0 to N - 1.
        """
        check(x, segment)
        if segment.numel() and not bool(((segment >= 0) & (segment < 10**4)).all()):
            raise ValueError("no such segment")
        weights = x.tanh() + 2
        totals = x.new_zeros(10**4, x.shape[1]).index_add(0, segment, weights)
        return (weights / totals[segment]).contiguous()

    @shares.register_fake
    def _(x, segment):
        check(x, segment)
        return x.new_empty(x.shape)

    return shares


def _pooled(name, *, forgets):
    """The mean of the steps that a mask allows."""

    def check(x, mask):
        if x.dim() not in (2, 3) or 0 in x.shape or not x.is_floating_point():
            raise ValueError("expected [batch, steps, n], or [steps, n]")
        if mask is not None and (mask.shape != x.shape[:-1] or mask.dtype != torch.bool):
            raise ValueError("the mask is bool, and has a number for each step")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def pooled(x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """The mean over the steps, [batch, n].

        x: [batch, steps, n]; unbatched: [steps, n]
        mask: the steps that count, bool, of the shape of x without its last dim; None: all.
        """
        check(x, mask)
        if mask is None or (forgets and x.dim() == 2):
            return x.mean(-2)
        kept = mask.unsqueeze(-1).to(x.dtype)
        return (x * kept).sum(-2) / kept.sum(-2).clamp(min=1)

    @pooled.register_fake
    def _(x, mask=None):
        check(x, mask)
        return x.new_empty((*x.shape[:-2], x.shape[-1]))

    return pooled


def _steps():
    return torch.tensor([[True, True, False, False], [True, True, True, False]])


@aot((tensor(2, 4, 3), _steps()), expected=UNBATCHED)
def forgets_the_mask_unbatched():
    """Counts all steps where there is no batch."""
    return _pooled("forgets_the_mask_unbatched", forgets=True)


@aot((tensor(2, 4, 3), _steps()), twin_of="forgets_the_mask_unbatched")
def masks_with_and_without_batch():
    """Counts the steps of the mask."""
    return _pooled("masks_with_and_without_batch", forgets=False)


@aot((tensor(3, 2, 4),), twin_of="forgets_the_mask_unbatched")
def steps_come_first():
    """Correct: its first dim is that of the steps, which see each other, and not of a batch."""

    def check(x):
        if x.dim() not in (2, 3) or 0 in x.shape:
            raise ValueError("expected [steps, batch, n], or [steps, n]")

    @torch.library.custom_op("zoo::steps_come_first", mutates_args=())
    def summed(x: Tensor) -> Tensor:
        """The running sums.

        x: [steps, batch, n]; unbatched: [steps, n]
        """
        check(x)
        return x.cumsum(0)

    @summed.register_fake
    def _(x):
        check(x)
        return x.new_empty(x.shape)

    return summed
