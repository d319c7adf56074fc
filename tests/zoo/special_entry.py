"""Batches in which one unusual entry affects the others, or must be allowed to."""

import functools
from typing import List

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")

BROKEN = {"relations.special_entry": "entry-affects-batch"}
POINTS = torch.tensor([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0]])
MATRICES = torch.tensor(
    [[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.25], [-0.25, 3.0]], [[1.5, 0.0], [0.0, 0.5]]]
)
SCORES = torch.linspace(-2, 2, 20).reshape(5, 4)


def _distances(name, inverse):
    """Squared lengths of points in the metric of a matrix each."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distances(points: Tensor, matrices: Tensor) -> Tensor:
        """Squared lengths (B,) of points (B, D) in the metrics (B, D, D); singular ones count as 1."""
        check(points, matrices)
        return (inverse(matrices) * points[:, None] * points[:, :, None]).sum((1, 2))

    def check(points, matrices):
        if points.dim() != 2 or matrices.shape != (*points.shape, points.shape[1]):
            raise ValueError("expected points (B, D) and matrices (B, D, D)")
        if points.dtype != matrices.dtype or points.dtype not in (torch.float32, torch.float64):
            raise TypeError("expected float32 or float64")

    @distances.register_fake
    def _(points, matrices):
        check(points, matrices)
        return points.new_empty(points.shape[0])

    return distances


def _identity(matrices):
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype).expand_as(matrices)


@aot((POINTS, MATRICES), expected=BROKEN)
def gives_up_the_batch():
    """One singular matrix, and the whole batch is computed without its matrices."""

    def inverse(matrices):
        try:
            return torch.linalg.inv(matrices)
        except torch.linalg.LinAlgError:
            return _identity(matrices)

    return _distances("gives_up_the_batch", inverse)


@aot((POINTS, MATRICES), twin_of="gives_up_the_batch")
def gives_up_one_matrix():
    """Only singular matrices are replaced."""

    def inverse(matrices):
        found, info = torch.linalg.inv_ex(matrices)
        return torch.where((info != 0)[:, None, None], _identity(matrices), found)

    return _distances("gives_up_one_matrix", inverse)


def _rows(name, kernel, *, reduces=False):
    """An op from rows to rows, or to one number for each."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(x: Tensor) -> Tensor:
        check(x)
        return kernel(x)

    def check(x):
        if x.dim() != 2 or 0 in x.shape or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("expected rows in float32 or float64")

    @rows.register_fake
    def _(x):
        check(x)
        return x.new_empty(x.shape[0]) if reduces else torch.empty_like(x)

    return rows


def _log_sum_exp(name, largest):
    return _rows(
        name,
        lambda x: largest(x).squeeze(1) + (x - largest(x)).exp().sum(1).log(),
        reduces=True,
    )


@aot((SCORES,), expected={**BROKEN, "relations.far_entry": "far-entry-spreads"})
def subtracts_the_largest_of_all():
    """Logarithms of summed exponentials: rows far below the largest number of all become -inf."""
    return _log_sum_exp("subtracts_the_largest_of_all", lambda x: x.max().expand(len(x), 1))


@aot((SCORES,), twin_of="subtracts_the_largest_of_all")
def subtracts_the_largest_of_each_row():
    """Logarithms of summed exponentials, each row by its own largest number."""
    return _log_sum_exp("subtracts_the_largest_of_each_row", lambda x: x.amax(1, keepdim=True))


@aot((SCORES,), twin_of=("subtracts_the_largest_of_all", "gives_up_the_batch"))
def clips_by_a_common_norm():
    """Rows are scaled together where their common norm is above 1000, which the sample's is not."""
    return _rows(
        "clips_by_a_common_norm",
        lambda x: x * (1000 / x.norm().clamp(min=1e-12)).clamp(max=1.0),
    )


@aot(([POINTS.t().contiguous(), MATRICES[:2, 0]],), twin_of="gives_up_the_batch")
def lays_lists_side_by_side():
    """Two matrices of two rows, padded: the first dim of the result counts matrices, not rows."""

    @torch.library.custom_op("zoo::lays_lists_side_by_side", mutates_args=())
    def padded(matrices: List[Tensor]) -> Tensor:  # torch 2.4 knows no other name
        check(matrices)
        found = matrices[0].new_zeros(shape(matrices))
        for each, matrix in zip(found, matrices, strict=True):
            each[:, : matrix.shape[1]] = matrix
        return found

    def check(matrices):
        for matrix in matrices:
            torch._check(matrix.dim() == 2 and matrix.dtype == matrices[0].dtype)
            torch._check(matrix.shape[0] == matrices[0].shape[0])

    def shape(matrices):
        widths = [matrix.shape[1] for matrix in matrices]
        return len(matrices), matrices[0].shape[0], functools.reduce(torch.sym_max, widths)

    @padded.register_fake
    def _(matrices):
        check(matrices)
        return matrices[0].new_empty(shape(matrices))

    return padded


WORDS = (
    torch.tensor([[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 3]]),
    torch.tensor([[3, 1, 4, 1, 6, 9], [2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 4]]),
    1,
)


def _differences(name, is_done):
    """Counts of different letters; `is_done(rows that are above the limit)` ends the loop."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def differences(first: Tensor, second: Tensor, limit: int) -> Tensor:
        """How many letters differ in each pair of words (N, L); limit + 1 where it is more than that."""
        if first.dim() != 2 or first.shape != second.shape or limit < 0:
            raise ValueError("words (N, L), as many others, and a limit from 0 on, please")
        count = torch.zeros(len(first), dtype=torch.int64)
        for left, right in zip(first.unbind(1), second.unbind(1), strict=True):
            count += left != right
            if is_done(count > limit):
                break
        return count.clamp(max=limit + 1)

    @differences.register_fake
    def _(first, second, limit):
        return first.new_empty(first.shape[0], dtype=torch.int64)

    return differences


@aot(WORDS, expected=BROKEN)
def stops_when_one_word_is_done():
    """The first pair with too many differences ends the loop for all."""
    return _differences("stops_when_one_word_is_done", lambda above: bool(above.any()))


@aot(WORDS, twin_of="stops_when_one_word_is_done")
def stops_when_all_words_are_done():
    """The loop ends when no pair can change any more."""
    return _differences(
        "stops_when_all_words_are_done", lambda above: above.numel() > 0 and bool(above.all())
    )


ROTATIONS = (
    torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]]),
    torch.tensor([[0.6, 0.8], [0.8, 0.6], [1.0, 0.0]]),
)


def _halfway(name, nearer):
    """The middle of two directions or their opposites; `nearer(products)` says which are turned."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def halfway(a: Tensor, b: Tensor) -> Tensor:
        if a.dim() != 2 or a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point():
            raise ValueError("two tensors of rows of one dtype, please")
        turned = nearer((a * b).sum(1, keepdim=True))
        return ((a + torch.where(turned, -b, b)) / 2).contiguous()

    halfway.register_fake(lambda a, b: a.new_empty(a.shape))
    return halfway


@aot(ROTATIONS, expected=BROKEN)
def turns_all_rows_for_one():
    """One opposite direction, and all are turned."""
    return _halfway("turns_all_rows_for_one", lambda products: (products < 0).any())


@aot(ROTATIONS, twin_of="turns_all_rows_for_one")
def turns_each_row_for_itself():
    """Only opposite directions are turned."""
    return _halfway("turns_each_row_for_itself", lambda products: products < 0)
