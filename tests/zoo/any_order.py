"""Ops with a list of pairs, of which the docstring says that their order does not matter."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
ORDER = {"relations.any_order": "order-matters"}
CHAIN = (tensor(6, 3), torch.tensor([[3, 2], [4, 3], [5, 4]]))


def _moves(name, moved, said="pairs in any order"):
    """Rows copied to other places; `moved(x, pairs)` gives the table after that."""

    def kernel(x: Tensor, pairs: Tensor) -> Tensor:
        if x.dim() != 2 or pairs.dim() != 2 or pairs.shape[1] != 2 or pairs.dtype != torch.int64:
            raise ValueError("rows, and pairs in int64, please")
        if len(pairs) and not 0 <= int(pairs.min()) <= int(pairs.max()) < len(x):
            raise IndexError("a pair of rows that there are, please")
        if len(pairs[:, 1].unique()) < len(pairs):
            raise ValueError("destinations that are distinct, please")
        return moved(x.clone(memory_format=torch.contiguous_format), pairs)

    kernel.__doc__ = f"""The rows with some of them copied to other places.

    Args:
        x: (N, D), rows.
        pairs: (P, 2) int64, each a source and a destination, {said}. Destinations are distinct.
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(lambda x, pairs: x.new_empty(x.shape))
    return op


def _one_by_one(x, pairs):
    for source, destination in pairs.tolist():
        x[destination] = x[source]
    return x


def _at_once(x, pairs):
    x[pairs[:, 1]] = x[pairs[:, 0]]
    return x


@aot(CHAIN, expected=ORDER)
def copies_rows_one_by_one():
    """Copies what an earlier pair has overwritten."""
    return _moves("copies_rows_one_by_one", _one_by_one)


@aot(CHAIN, twin_of="copies_rows_one_by_one")
def copies_rows_at_once():
    """Reads all sources before it writes."""
    return _moves("copies_rows_at_once", _at_once)


@aot(CHAIN)
def copies_rows_in_turn():
    """Correct: the docstring says that pairs follow each other."""
    return _moves("copies_rows_in_turn", _one_by_one, "one after the other")


@aot((torch.tensor([2, 0, 2, 1]), tensor(4, 3)))
def sums_by_place():
    """Correct: the values belong to the places, though the docstring gives their shape by dots."""

    @torch.library.custom_op("zoo::sums_by_place", mutates_args=())
    def op(places: Tensor, values: Tensor) -> Tensor:
        """The sums of the values of each place, 0 to 7.

        Args:
            places: (P,) int64, in any order.
            values: (P, ...), one for each place.
        """
        if places.dtype != torch.int64 or places.dim() != 1 or len(places) != len(values):
            raise ValueError("an int64 place for each value, please")
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < 8:
            raise IndexError("places from 0 to 7, please")
        sums = torch.zeros(8, *values.shape[1:], dtype=torch.float64)
        return sums.index_add(0, places, values.double()).to(values.dtype)

    op.register_fake(lambda places, values: values.new_empty(8, *values.shape[1:]))
    return op


@aot((torch.tensor([2, 0, 2, 1]), torch.tensor(3)), skips={"fake.symbolic": "no-second-size"})
def counts_places_up_to_a_number():
    """Correct: the number, of whose shape the docstring says nothing, is a tensor without dims."""

    @torch.library.custom_op("zoo::counts_places_up_to_a_number", mutates_args=())
    def op(places: Tensor, count: Tensor) -> Tensor:
        """The share of the places from 0 to 7 that are below a count.

        Args:
            places: (P,) int64, in any order.
            count: places below it are counted.
        """
        if (
            places.dtype != torch.int64
            or places.dim() != 1
            or count.dim()
            or count.dtype != torch.int64
        ):
            raise ValueError("int64 places, and a count without dims, please")
        return torch.bincount((places < count).long(), minlength=2)[1] / max(len(places), 1)

    op.register_fake(lambda places, count: places.new_empty((), dtype=torch.float32))
    return op


def _ranked(name, below):
    """The area under a ROC curve; `below(scores, labels)` is how many negatives each is above of."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def area(scores: Tensor, labels: Tensor) -> Tensor:
        """The share of pairs of a positive and a negative that `scores` put in the right order.

        A pair with equal scores counts one half. scores: (N,) float32. labels: (N,) bool.
        The area does not depend on the order of the samples; it is 0 without such pairs.
        """
        if scores.dim() != 1 or scores.dtype != torch.float32 or not bool(scores.isfinite().all()):
            raise ValueError("finite scores (N,), please")
        if labels.shape != scores.shape or labels.dtype != torch.bool:
            raise ValueError("a bool label for each score, please")
        pairs = labels.sum() * (~labels).sum()
        return (below(scores, labels)[labels].sum() / pairs.clamp(min=1)).float()

    area.register_fake(lambda scores, labels: scores.new_empty(()))
    return area


def _below_in_a_sort(scores, labels):
    order = scores.argsort(stable=True)
    counts = torch.empty(len(scores))
    counts[order] = (~labels)[order].cumsum(0).float()
    return counts


def _below_in_pairs(scores, labels):
    others = scores[~labels]
    return (scores[:, None] > others).sum(1) + 0.5 * (scores[:, None] == others).sum(1)


SCORES = (torch.tensor([0.2, 0.7, 0.7, 0.4]), torch.tensor([False, True, False, True]))


@aot(SCORES, expected=ORDER)
def ranks_equal_scores_as_they_come():
    """Equal scores have the order in which they come, not one half."""
    return _ranked("ranks_equal_scores_as_they_come", _below_in_a_sort)


@aot(SCORES, twin_of="ranks_equal_scores_as_they_come")
def counts_equal_scores_half():
    """A pair of equal scores counts one half."""
    return _ranked("counts_equal_scores_half", _below_in_pairs)


@aot(
    (torch.tensor([0, 2, 2, 5]), torch.tensor([3, 0, 1, 1, 2]), tensor(5)),
    skips={"fake.symbolic": "no-second-size"},
)
def adds_up_rows_of_a_sparse_matrix():
    """Correct: columns come in any order within the row that they belong to."""

    @torch.library.custom_op("zoo::adds_up_rows_of_a_sparse_matrix", mutates_args=())
    def op(starts: Tensor, columns: Tensor, values: Tensor) -> Tensor:
        """The sum of the values of each row times their column.

        Args:
            starts: (M + 1,) int64, where rows start: from 0, not decreasing, to E.
            columns: (E,) int64 from 0 to 7. The columns of a row may come in any order.
            values: (E,)
        """
        counts = starts.diff()
        if len(columns) != len(values) or int(starts[0]) or int(starts[-1]) != len(values):
            raise ValueError("a column for each value, and rows from 0 to their number, please")
        if len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < 8:
            raise IndexError("columns from 0 to 7, please")
        rows = torch.arange(len(counts)).repeat_interleave(counts)
        return values.new_zeros(len(counts)).index_add(0, rows, values * columns)

    op.register_fake(lambda starts, columns, values: values.new_empty(starts.shape[0] - 1))
    return op
