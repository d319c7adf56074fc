"""Ops that sort, in whose results the order of equal elements shows."""

import functools
from typing import Tuple

import numpy as np
import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
BROKEN = {"relations.ties": "ties-out-of-order"}
SCORES = (torch.linspace(-1, 1, 12).sin().reshape(2, 6), torch.arange(12.0).reshape(2, 6))


def _discounted(name, order, said):
    """Gains by falling scores, discounted by their rank; `order(scores)` sorts the last dim."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def discounted(scores: Tensor, gains: Tensor) -> Tensor:
        if scores.dim() != 2 or scores.shape != gains.shape:
            raise ValueError("scores (N, C) and as many gains, please")
        if scores.dtype != gains.dtype or scores.dtype not in (torch.float32, torch.float64):
            raise TypeError("two tensors of float32 or float64, please")
        ranked = np.take_along_axis(gains.numpy(), order(-scores.numpy()), -1)
        return torch.from_numpy((ranked * 0.5 ** np.arange(ranked.shape[1])).sum(-1)).to(
            gains.dtype
        )

    @discounted.register_fake
    def fake(scores, gains):
        return gains.new_empty(gains.shape[0])

    fake.__doc__ = f"""The gains of lists (N, C), those with high scores first.{said}"""
    return discounted


def _stable(falling):
    return np.argsort(falling, axis=-1, kind="stable")


def _in_blocks(falling):
    """Sorted stably in blocks of 16, and merged with those of later blocks first where they are equal."""
    at = np.broadcast_to(np.arange(falling.shape[-1]), falling.shape)
    return np.lexsort((at, -(at // 16), falling), axis=-1)


IN_ORDER = " Items with equal scores keep the order of the list."


@aot(SCORES, expected=BROKEN)
def merges_later_blocks_first():
    """Equal scores of a long list come in the order of their blocks, the last first."""
    return _discounted("merges_later_blocks_first", _in_blocks, IN_ORDER)


@aot(SCORES, twin_of="merges_later_blocks_first")
def keeps_the_order_of_equal_scores():
    """The sort is stable."""
    return _discounted("keeps_the_order_of_equal_scores", _stable, IN_ORDER)


def _flipped(falling):
    """A stable sort of rising numbers, read from its end."""
    return np.argsort(-falling, axis=-1, kind="stable")[..., ::-1]


FALLING = " They are sorted by falling score, equal scores in the order of the list."


@aot(SCORES, expected=BROKEN)
def ranks_the_last_of_equal_scores_first():
    """A flipped stable sort has equal scores in reverse, which shows in sums alone."""
    return _discounted("ranks_the_last_of_equal_scores_first", _flipped, FALLING)


@aot(SCORES, twin_of="ranks_the_last_of_equal_scores_first")
def ranks_the_first_of_equal_scores_first():
    """The negated scores are sorted."""
    return _discounted("ranks_the_first_of_equal_scores_first", _stable, FALLING)


@aot(SCORES)
def promises_no_order_of_equal_scores():
    """No docstring says in which order equal scores come."""
    said = " The order of equal scores is not specified."
    return _discounted("promises_no_order_of_equal_scores", _in_blocks, said)


@aot((SCORES[0],))
def gives_the_place_of_the_first():
    """Equal elements are put together, so that equal is something else than nearly equal."""

    @torch.library.custom_op("zoo::gives_the_place_of_the_first", mutates_args=())
    def places(keys: Tensor) -> Tensor:
        """For each key, the place of the equal key that comes first in the list."""
        if not keys.is_floating_point():
            raise ValueError("floating-point numbers, please")
        flat = keys.flatten()
        return (flat[:, None] == flat).to(torch.int8).argmax(1)

    places.register_fake(lambda keys: keys.new_empty(keys.numel(), dtype=torch.int64))
    return places


def _best(name, order):
    """The places of the best scores; `order(scores)` sorts the last dim, the best first."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def best(scores: Tensor, k: int) -> Tensor:
        """The places (N, k) of the k best of each list (N, C). Of equal scores the first is better."""
        if scores.dim() != 2 or not scores.is_floating_point() or not 0 <= k <= scores.shape[1]:
            raise ValueError("floating-point scores (N, C) and a k up to C, please")
        return order(scores)[:, :k].contiguous()

    best.register_fake(lambda scores, k: scores.new_empty(scores.shape[0], k, dtype=torch.int64))
    return best


LISTS = (SCORES[0], 4)
LISTS_WITH_NAN = (SCORES[0].masked_fill(SCORES[0] > SCORES[0].mean(), torch.nan), 4)


@aot(LISTS, expected=BROKEN)
def flips_a_stable_sort():
    """A stable sort is flipped, and so the last of equal scores comes first."""
    return _best("flips_a_stable_sort", lambda scores: scores.argsort(dim=1, stable=True).flip(1))


@aot(LISTS, LISTS_WITH_NAN, twin_of="flips_a_stable_sort")
def sorts_stably_from_the_best_on():
    """The sort itself falls."""
    return _best(
        "sorts_stably_from_the_best_on",
        lambda scores: scores.argsort(dim=1, descending=True, stable=True),
    )


def _most_words(name, order):
    """The documents that have the most words; `order(totals)` sorts them, the most first."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def longest(counts: Tensor, k: int) -> Tensor:
        """The places (k,) of the k documents with the most words; of equal numbers the first is first.

        counts: (N, V) int64, how often each word occurs in each document.
        """
        if counts.dim() != 2 or counts.dtype != torch.int64 or not 0 <= k <= len(counts):
            raise ValueError("counts (N, V) of int64 and a k up to N, please")
        return order(counts.sum(1))[:k].clone()

    longest.register_fake(lambda counts, k: counts.new_empty(k))
    return longest


COUNTS = (torch.tensor([[1, 0, 2], [4, 1, 0], [0, 0, 1], [3, 3, 1], [2, 0, 0]]), 3)


@aot(COUNTS, expected=BROKEN)
def flips_a_sort_of_documents():
    """The scores come from rows of integers, and a stable sort of them is flipped."""
    return _most_words(
        "flips_a_sort_of_documents", lambda totals: totals.argsort(dim=0, stable=True).flip(0)
    )


@aot(COUNTS, twin_of="flips_a_sort_of_documents")
def sorts_documents_from_the_longest_on():
    """The sort itself falls."""
    return _most_words(
        "sorts_documents_from_the_longest_on",
        lambda totals: totals.argsort(dim=0, stable=True, descending=True),
    )


CORNERS = torch.tensor([[[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [0.0, 2.0]]])


@aot((CORNERS[:, 1:4], CORNERS, 3))
def nearest_corners():
    """Correct: distances are equal where coordinates are not, and either neighbour's gradient is right."""

    @torch.library.custom_op("zoo::nearest_corners", mutates_args=())
    def nearest(points: Tensor, corners: Tensor, k: int) -> Tuple[Tensor, Tensor]:
        """The k nearest of `corners` (B, M, D) for each of `points` (B, N, D), 1 <= k <= M.

        Returns squared distances and places, both (B, N, k); of equal distances the first comes first.
        """
        if points.dim() != 3 or corners.dim() != 3 or not 1 <= k <= corners.shape[1]:
            raise ValueError("points (B, N, D), corners (B, M, D) and 1 <= k <= M, please")
        if not points.is_floating_point() or points.dtype != corners.dtype:
            raise TypeError("two tensors of the same floating-point dtype, please")
        gaps = (points[:, :, None] - corners[:, None]).square().sum(-1)
        ordered, places = gaps.sort(dim=2, stable=True)
        return ordered[:, :, :k].contiguous(), places[:, :, :k].contiguous()

    @nearest.register_fake
    def fake(points, corners, k):
        shape = (points.shape[0], points.shape[1], k)
        return points.new_empty(shape), points.new_empty(shape, dtype=torch.int64)

    def backward(ctx, grad, _):
        points, corners, places = ctx.saved_tensors
        at = places.flatten(1)[:, :, None].expand(-1, -1, points.shape[2])
        near = corners.gather(1, at).unflatten(1, places.shape[1:])
        each = 2 * grad[..., None] * (points[:, :, None] - near)
        return each.sum(2), torch.zeros_like(corners).scatter_add(1, at, -each.flatten(1, 2)), None

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2], output[1])
        ctx.mark_non_differentiable(output[1])

    nearest.register_autograd(backward, setup_context=setup)
    return nearest


def _peaks(name, is_new):
    """Where the highest number so far is; `is_new(number, highest)` says whether it moves."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def peaks(prices: Tensor) -> Tensor:
        """The place of the highest price so far.

        If the highest price occurs more than once, its first place counts.
        """
        if prices.dim() != 2 or prices.dtype not in (torch.float32, torch.float64):
            raise ValueError("rows of float32 or float64, please")
        found = torch.zeros(prices.shape, dtype=torch.int64)
        for row, numbers in enumerate(prices.tolist()):
            highest = 0
            for at, number in enumerate(numbers):
                highest = at if is_new(number, numbers[highest]) else highest
                found[row, at] = highest
        return found

    peaks.register_fake(lambda prices: prices.new_empty(prices.shape, dtype=torch.int64))
    return peaks


PRICES = (torch.tensor([[1.0, 3.0, 2.0, 4.0, 3.5], [2.0, 1.0, 2.5, 3.0, 0.5]]),)


@aot(PRICES, expected=BROKEN)
def peaks_move_to_the_last():
    """An equal price is a new peak."""
    return _peaks("peaks_move_to_the_last", lambda number, highest: number >= highest)


@aot(PRICES, twin_of="peaks_move_to_the_last")
def peaks_stay_at_the_first():
    """Only a higher price is a new peak."""
    return _peaks("peaks_stay_at_the_first", lambda number, highest: number > highest)
