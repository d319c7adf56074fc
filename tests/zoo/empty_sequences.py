"""Ops on sequences with lengths, whose result for a sequence without steps is or is not made of padding."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
PADDING = {"relations.padding": "padding-has-influence"}
ZEROS = "A sequence with no steps gives zeros."
QUERIES = (tensor(2, 3), tensor(2, 5, 3), torch.tensor([5, 2]))


def _attended(name, finish, said=ZEROS):
    """The mean of the steps of a sequence, with weights; `finish(weights, visible)` are the weights."""

    def check(query, key, key_lengths):
        if query.dim() != 2 or key.dim() != 3 or 0 in key.shape:
            raise ValueError("expected a query for each sequence, and sequences")
        if query.shape != (key.shape[0], key.shape[2]) or key_lengths.shape != query.shape[:1]:
            raise ValueError("a query, and a length, for each sequence, please")
        if not query.is_floating_point() or query.dtype != key.dtype:
            raise TypeError("floating-point numbers, please")
        if key_lengths.dtype != torch.int64:
            raise TypeError("lengths as int64, please")

    def kernel(query: Tensor, key: Tensor, key_lengths: Tensor) -> Tensor:
        check(query, key, key_lengths)
        visible = torch.arange(key.shape[1]) < key_lengths[:, None]
        scores = (key * query[:, None]).sum(-1).masked_fill(~visible, -1e4)
        weights = finish(scores.softmax(-1), visible)
        return (weights[..., None] * key).sum(1).contiguous()

    kernel.__doc__ = f"""The mean of the steps of each sequence, weighted by their products with its query.

    query: [batch, n]
    key: [batch, steps, n]
    key_lengths: [batch]; only the first `key_lengths[b]` steps of sequence `b` take part. {said}
    """
    attended = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @attended.register_fake
    def _(query, key, key_lengths):
        check(query, key, key_lengths)
        return torch.empty_like(query, memory_format=torch.contiguous_format)

    return attended


@aot(QUERIES, expected=PADDING)
def attends_to_padding_alone():
    """Masks by a large number, so that all steps of an empty sequence have the same weight."""
    return _attended("attends_to_padding_alone", lambda weights, visible: weights)


@aot(QUERIES, twin_of="attends_to_padding_alone")
def attends_to_nothing():
    """Gives no weight to what is masked."""
    return _attended("attends_to_nothing", lambda weights, visible: weights * visible)


@aot(QUERIES, notes=PADDING)
def attends_to_padding_where_no_length_is_zero():
    """Masks by a large number; nothing says that a sequence may be empty."""
    return _attended(
        "attends_to_padding_where_no_length_is_zero", lambda weights, visible: weights, ""
    )


@aot(QUERIES, twin_of="attends_to_padding_alone")
def attends_from_one_step_on():
    """Raises for an empty sequence."""

    def finish(weights, visible):
        if not visible.any(-1).all():
            raise ValueError("a sequence has at least one step")
        return weights

    return _attended("attends_from_one_step_on", finish, "")


def _distances(name, lengths_of):
    """The most distant steps of two sequences; `lengths_of(left_lengths, right_lengths)` are used."""

    def check(left, left_lengths, right, right_lengths):
        if left.dim() != 3 or right.dim() != 3 or 0 in (*left.shape, *right.shape):
            raise ValueError("expected two batches of sequences")
        if left.shape[::2] != right.shape[::2] or left.dtype != right.dtype:
            raise ValueError("two batches of one size and dtype, please")
        for lengths in (left_lengths, right_lengths):
            if lengths.shape != left.shape[:1] or lengths.dtype != torch.int64:
                raise ValueError("a length for each sequence, as int64, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distances(
        left: Tensor, left_lengths: Tensor, right: Tensor, right_lengths: Tensor
    ) -> Tensor:
        """The largest squared distance of a step of one sequence from one of the other; 0 without any.

        Anything behind the length of a sequence is ignored.
        """
        check(left, left_lengths, right, right_lengths)
        squares = (left[:, :, None] - right[:, None]).square().sum(-1)
        for dim, lengths in enumerate(lengths_of(left_lengths, right_lengths), 1):
            masked = torch.arange(squares.shape[dim]) >= lengths[:, None]
            squares = squares.masked_fill(masked.unsqueeze(3 - dim), 0)
        return squares.flatten(1).amax(1)

    @distances.register_fake
    def _(left, left_lengths, right, right_lengths):
        check(left, left_lengths, right, right_lengths)
        return left.new_empty(left.shape[0])

    return distances


PAIRS = (tensor(2, 5, 3), torch.tensor([5, 2]), tensor(2, 6, 3), torch.tensor([3, 4]))


@aot(PAIRS, expected=PADDING)
def farthest_by_one_length():
    """Masks both sequences with the length of the first."""
    return _distances("farthest_by_one_length", lambda left, right: (left, left))


@aot(PAIRS, twin_of="farthest_by_one_length")
def farthest_by_both_lengths():
    """Masks each with its own; a change of one length leaves the other sequence as it is."""
    return _distances("farthest_by_both_lengths", lambda left, right: (left, right))
