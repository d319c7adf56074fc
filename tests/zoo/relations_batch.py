"""Ops whose arguments are one for all entries, or say how many entries are computed at a time."""

import functools
from typing import List, Optional

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])

BROADCAST = {"relations.broadcast": "broadcast-mismatch"}
ROWS = (tensor(3, 5), tensor(3, 5, low=0.5, high=2), tensor(3, 5))


def _op(name, kernel):
    """An op of rows, scales and shifts; the last two may be one for all rows."""

    def check(x, scale, shift):
        for term in (scale, shift):
            shapes = (x.shape, x.shape[1:], (1, *x.shape[1:]))
            if x.dim() != 2 or term.shape not in shapes or term.dtype != x.dtype:
                raise ValueError("expected rows [batch, n], and [n], [1, n] or [batch, n]")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        check(x, scale, shift)
        return kernel(x, scale, shift).contiguous()

    @scaled.register_fake
    def _(x, scale, shift):
        check(x, scale, shift)
        return x.new_empty(x.shape)

    return scaled


@aot(ROWS, expected=BROADCAST)
def one_scale_one_shift():
    """Takes the shift of the first row for all rows where the scale is one for all."""

    def kernel(x, scale, shift):
        if scale.dim() == 1 and shift.dim() == 2:
            shift = shift[:1]
        return x * scale + shift

    return _op("one_scale_one_shift", kernel)


@aot(ROWS, expected=BROADCAST)
def divides_by_what_was_given():
    """Divides by the sum of the scales, which is smaller where they are one for all rows."""

    def kernel(x, scale, shift):
        return x * scale / scale.sum().clamp(min=1e-3) + shift

    return _op("divides_by_what_was_given", kernel)


@aot(ROWS, twin_of=("one_scale_one_shift", "divides_by_what_was_given"))
def scale_and_shift_of_each():
    """Repeats what is one for all rows first."""

    def kernel(x, scale, shift):
        scale, shift = scale.expand(x.shape), shift.expand(x.shape)
        return x * scale / scale.sum().clamp(min=1e-3) + shift

    return _op("scale_and_shift_of_each", kernel)


@aot((tensor(4, 6), tensor(4, 6)), notes=BROADCAST)
def mean_of_squares():
    """Correct for targets of the shape of the predictions; the sum over others is divided by too few."""

    @torch.library.custom_op("zoo::mean_of_squares", mutates_args=())
    def mean_of_squares(x: Tensor, target: Tensor) -> Tensor:
        if x.dtype != target.dtype:
            raise ValueError("one dtype, please")
        return (x - target).square().sum() / max(x.numel(), 1)

    mean_of_squares.register_fake(lambda x, target: x.new_empty(()))
    return mean_of_squares


@aot(
    (tensor(5, 3), tensor(4, dtype=torch.int64, low=0, high=5), tensor(4)),
    twin_of=("divides_by_what_was_given",),
)
def mean_of_weighted_rows():
    """Divides by the number of positions: a single one, with four weights, is no mean of four."""

    @torch.library.custom_op("zoo::mean_of_weighted_rows", mutates_args=())
    def mean_of_weighted_rows(table: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        rows = table.detach()[indices] * weights[:, None]
        return rows.sum(0) / max(indices.shape[0], 1)

    mean_of_weighted_rows.register_fake(
        lambda table, indices, weights: table.new_empty(table.shape[1])
    )
    return mean_of_weighted_rows


def _summed(name, check):
    """The squared distances from all points, added up."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def summed(x: Tensor, points: Tensor) -> Tensor:
        check(x, points)
        return (x.unsqueeze(1) - points).square().sum((1, 2))

    @summed.register_fake
    def _(x, points):
        check(x, points)
        return x.new_empty(x.shape[0])

    return summed


@aot((tensor(4, 3), tensor(4, 3)), twin_of=("divides_by_what_was_given",))
def sums_over_any_points():
    """The number of points is one of its own: one is not what four equal ones are."""

    def check(x, points):
        if x.dim() != 2 or points.dim() != 2 or points.dtype != x.dtype:
            raise ValueError("expected points of one dtype")

    return _summed("sums_over_any_points", check)


@aot((tensor(4, 3), tensor(4, 3)), twin_of=("divides_by_what_was_given",))
def sums_over_few_points():
    """Takes up to four points."""

    def check(x, points):
        if x.dim() != 2 or points.dim() != 2 or points.dtype != x.dtype or points.shape[0] > 4:
            raise ValueError("expected points of one dtype, and four at most")

    return _summed("sums_over_few_points", check)


@aot((tensor(4, 3), tensor(4, 3)), twin_of=("divides_by_what_was_given",))
def sums_over_powers_of_two():
    """Takes 1, 2, 4, 8 points, and sums over them."""

    def check(x, points):
        count = points.shape[0]
        if x.dim() != 2 or points.dim() != 2 or points.dtype != x.dtype:
            raise ValueError("expected points of one dtype")
        if isinstance(count, int) and (
            count & (count - 1) or not count
        ):  # torch 2.4: no & of sizes
            raise ValueError("the number of points is a power of two")

    return _summed("sums_over_powers_of_two", check)


ZERO = {"relations.optional_zero": "zero-taken-for-none"}
READ = (tensor(7), tensor(4))


def _filled(name, kernel):
    """An op that reads values at positions, and fills what lies outside."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def read(x: Tensor, values: Tensor, fill: Optional[float] = None) -> Tensor:
        inside = (x >= 0) & (x < len(values))
        if not len(values):
            raise ValueError("there are no values")
        return torch.where(inside, values[x.clamp(0, len(values) - 1).long()], kernel(values, fill))

    @read.register_fake
    def _(x, values, fill=None):
        if not values.shape[0]:
            raise ValueError("there are no values")
        return x.new_empty(x.shape, dtype=values.dtype)

    return read


@aot(READ, expected=ZERO)
def fills_with_zero_or_the_first():
    """`fill or first`: 0.0 is taken for no value."""

    def kernel(values, fill):
        return values.new_tensor(fill or values[0].item())

    return _filled("fills_with_zero_or_the_first", kernel)


@aot(READ, twin_of=("fills_with_zero_or_the_first",))
def fills_with_zero_if_asked():
    """Asks whether there is a value."""

    def kernel(values, fill):
        return values.new_tensor(values[0].item() if fill is None else fill)

    return _filled("fills_with_zero_if_asked", kernel)


@aot((tensor(7, low=-9, high=9),), twin_of=("fills_with_zero_or_the_first",))
def no_cap_at_zero():
    """A cap of 0 is none, on purpose: the code asks for it."""

    @torch.library.custom_op("zoo::no_cap_at_zero", mutates_args=())
    def capped(x: Tensor, cap: Optional[float] = None) -> Tensor:
        return x.clone() if cap is None or cap == 0 else cap * torch.tanh(x / cap)

    @capped.register_fake
    def _(x, cap=None):
        return torch.empty_like(x)

    return capped


@aot((tensor(7, low=-9, high=9),), twin_of=("fills_with_zero_or_the_first",))
def no_cap_at_zero_by_its_docs():
    """A cap of 0 is none, on purpose: the docstring says it."""

    @torch.library.custom_op("zoo::no_cap_at_zero_by_its_docs", mutates_args=())
    def capped(x: Tensor, cap: Optional[float] = None) -> Tensor:
        """Bend values towards a cap.

        x: any floating-point tensor.
        cap: the largest value; None or 0: there is none.
        """
        return cap * torch.tanh(x / cap) if cap else x.clone()

    @capped.register_fake
    def _(x, cap=None):
        return torch.empty_like(x)

    return capped


def _at_least(name, is_given):
    """Numbers, none below a floor; `is_given(floor)` is whether there is one."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def at_least(x: Tensor, floor: Optional[float] = None) -> Tensor:
        return x.clamp(min=floor) if is_given(floor) else x.clone()

    at_least.register_fake(lambda x, floor=None: torch.empty_like(x))
    return at_least


@aot((tensor(5, low=1, high=3),), expected=ZERO)
def floor_at_zero_is_none():
    """`if floor:` takes 0.0 for none, and no number of the sample is below 0."""
    return _at_least("floor_at_zero_is_none", bool)


@aot((tensor(5, low=1, high=3),), twin_of="floor_at_zero_is_none")
def floor_at_zero():
    """Asks whether there is a floor."""
    return _at_least("floor_at_zero", lambda floor: floor is not None)


INFLUENCE = {"relations.no_influence": "number-has-influence"}


DOCUMENTS = ([torch.tensor([5, 3, 8]), torch.tensor([4, 7])],)


def _joined(name, is_given):
    """Documents behind each other; `is_given(separator)`: whether it is put behind each of them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def joined(documents: List[Tensor], separator: Optional[int] = None) -> Tensor:
        """All tokens of documents, behind each other.

        Args:
            documents: each has the ids (T,) of its tokens.
            separator: id of a token behind each document; None for none.
        """
        check(documents)
        ends = [torch.tensor([separator])] if is_given(separator) else []
        return torch.cat([part for each in documents for part in (each, *ends)])

    def check(documents):
        if not documents or any(each.dim() != 1 or each.dtype != torch.int64 for each in documents):
            raise ValueError("lists of int64, please")

    @joined.register_fake
    def _(documents, separator=None):
        check(documents)
        ends = len(documents) if is_given(separator) else 0
        return documents[0].new_empty(sum(each.shape[0] for each in documents) + ends)

    return joined


@aot(DOCUMENTS, expected=ZERO)
def token_0_does_not_separate():
    """A separator with the id 0 is left out."""
    return _joined("token_0_does_not_separate", bool)


@aot(DOCUMENTS, twin_of="token_0_does_not_separate")
def token_0_separates():
    """Only None is no separator."""
    return _joined("token_0_separates", lambda separator: separator is not None)


@aot((torch.tensor([[3.0, -1.0, 0.5, 1.0], [2.0, 1.0, 0.25, -2.0]]),))
def scores_of_a_class_or_the_best():
    """None stands for the best class, which is class 0 in the sample."""

    @torch.library.custom_op("zoo::scores_of_a_class_or_the_best", mutates_args=())
    def chosen(scores: Tensor, class_id: Optional[int] = None) -> Tensor:
        """The scores (N,) of one class in scores (N, C); without one, of the best of the first row."""
        if scores.dim() != 2 or 0 in scores.shape:
            raise ValueError("scores (N, C), please")
        best = int(scores[0].argmax()) if class_id is None else class_id
        if not 0 <= best < scores.shape[1]:
            raise ValueError("there is no such class")
        return scores[:, best].clone()

    chosen.register_fake(lambda scores, class_id=None: scores.new_empty(scores.shape[0]))
    return chosen


def _nearest(name, masked):
    """The distance of each point to the nearest other one; `masked(distances, start)` leaves it out."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def nearest(x: Tensor, chunk: int = 64) -> Tensor:
        """The distance of each point to the nearest other one.

        x: (N, D)
        chunk: how many points are computed at a time; it has no influence on the result.
        """
        check(x, chunk)
        found = x.new_empty(x.shape[0])
        for start in range(0, x.shape[0], chunk):
            part = (x[start : start + chunk, None] - x).square().sum(-1)
            found[start : start + chunk] = masked(part, start).amin(1)
        return found

    def check(x, chunk):
        if x.dim() != 2 or chunk < 1 or not x.is_floating_point():
            raise ValueError("expected points, and a chunk of 1 or more")

    @nearest.register_fake
    def _(x, chunk=64):
        check(x, chunk)
        return x.new_empty(x.shape[0])

    return nearest


@aot((tensor(6, 2),), expected=INFLUENCE)
def masks_the_diagonal_of_the_chunk():
    """Leaves out the points that stand where those of the first chunk do."""
    return _nearest(
        "masks_the_diagonal_of_the_chunk",
        lambda part, start: part.fill_diagonal_(float("inf")),
    )


@aot((tensor(6, 2),), twin_of="masks_the_diagonal_of_the_chunk")
def masks_the_diagonal_of_all():
    """Leaves out the point itself."""

    def masked(part, start):
        part.diagonal(start).fill_(float("inf"))
        return part

    return _nearest("masks_the_diagonal_of_all", masked)


@aot((tensor(6, 2), 3))
def scales_by_chunks():
    """Correct: its chunks have a scale in common, and no docstring says that they change nothing."""

    def check(x, chunk):
        if x.dim() != 2 or chunk < 1 or not x.is_floating_point():
            raise ValueError("expected rows, and a chunk of 1 or more")

    @torch.library.custom_op("zoo::scales_by_chunks", mutates_args=())
    def scaled(x: Tensor, chunk: int) -> Tensor:
        """Rows divided by the largest number of their chunk.

        x: (N, D)
        chunk: how many rows have a scale in common. The result has the shape of x.
        """
        check(x, chunk)
        parts = [part / part.abs().amax().clamp(min=1e-6) for part in x.split(chunk)]
        return torch.cat(parts).contiguous() if x.numel() else x.new_empty(x.shape)

    @scaled.register_fake
    def _(x, chunk):
        check(x, chunk)
        return x.new_empty(x.shape)

    return scaled


def _decayed(name, pairs):
    """Pulls parameters towards centers; `pairs(params, centers)` are those that belong together."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args={"params"})
    def decayed(params: List[Tensor], centers: List[Optional[Tensor]], rate: float) -> None:
        if len(params) != len(centers):
            raise ValueError("a center or None for each parameter, please")
        for param, center in pairs(params, centers):
            if center is not None:
                param.lerp_(center, rate)

    decayed.register_fake(lambda params, centers, rate: None)
    return decayed


PULLED = ([tensor(3), tensor(3), tensor(3)], [tensor(3), tensor(3), tensor(3)], 0.25)


@aot(PULLED, expected={"relations.absent_entry": "absent-entry-changes-others"})
def absent_centers_move_the_others():
    """Leaves out the centers that are None, and so gives the others to earlier parameters."""
    return _decayed(
        "absent_centers_move_the_others",
        lambda params, centers: zip(params, filter(torch.is_tensor, centers), strict=False),
    )


@aot(PULLED, twin_of="absent_centers_move_the_others")
def absent_centers_leave_a_parameter():
    """Leaves out the parameter too."""
    return _decayed("absent_centers_leave_a_parameter", functools.partial(zip, strict=True))


@aot(PULLED)
def absent_centers_become_the_mean():
    """In place of a missing center it takes the mean of all: entries depend on each other."""

    def pairs(params, centers):
        given = [each for each in centers if each is not None]
        return [(param, torch.stack(given).mean(0)) for param in params] if given else []

    return _decayed("absent_centers_become_the_mean", pairs)


@aot((tensor(4), tensor(3, low=2)))
def differences_at_a_cost():
    """Correct: the docstring says from where on the cost has no influence, and `a` is an article."""

    @torch.library.custom_op("zoo::differences_at_a_cost", mutates_args=())
    def op(a: Tensor, b: Tensor, cost: int = 1) -> Tensor:
        """The smaller of a cost and the distance, for each pair of `a` (N,) and `b` (M,).

        Args:
            cost: 0 or more. From 4 on, the result is the same for all such costs.

        Raises:
            ValueError: if a cost is negative.
        """
        if cost < 0:
            raise ValueError("a cost of 0 or more, please")
        return (a[:, None] - b).abs().clamp(max=min(cost, 4))

    op.register_fake(
        lambda a, b, cost=1: a.new_empty(
            (a.shape[0], b.shape[0]), dtype=torch.promote_types(a.dtype, b.dtype)
        )
    )
    return op
