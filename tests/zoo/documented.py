"""Ops that do not do what their docstrings say, and what no sample shows."""

import functools
from typing import List, Optional, Tuple

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .alias_rejected import ON_SHAPES
from .variants import DTYPE, specimen

POINTS = (tensor(4, 2), tensor(3, 2))


def _nearest(name, none):
    """The nearest of some centers; `none(points)` is the answer where there is no center."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def nearest(points: Tensor, centers: Tensor) -> Tensor:
        """Positions of the nearest centers.

        points: (N, D)
        centers: (M, D), may be empty: then every position is -1
        """
        if points.dim() != 2 or centers.dim() != 2 or points.shape[1] != centers.shape[1]:
            raise ValueError("points of one dimension, please")
        if not len(centers):
            return none(points)
        return (points[:, None] - centers).square().sum(-1).argmin(1)

    def fake(points: Tensor, centers: Tensor) -> Tensor:
        if points.dim() != 2 or centers.dim() != 2 or points.shape[1] != centers.shape[1]:
            raise ValueError("points of one dimension, please")
        return points.new_empty(points.shape[0], dtype=torch.int64)

    nearest.register_fake(fake)
    return nearest


@specimen(
    POINTS,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="centers.empty0",
)
def raises_without_a_center():
    """Raises by accident where there are no centers, which the docstring allows."""
    return _nearest("raises_without_a_center", lambda points: points.new_empty(4, 0).argmin(1))


@specimen(POINTS, twin_of="raises_without_a_center")
def answers_without_a_center():
    """Gives -1 there."""
    return _nearest(
        "answers_without_a_center", lambda points: points.new_full((len(points),), -1).long()
    )


def _shares(name, highest, said=None):
    """The share that each edge has in the edges of its node; `highest(index)` is the highest node."""

    def shares(weight: Tensor, index: Tensor) -> Tensor:
        if weight.dim() != 1 or index.shape != weight.shape:
            raise ValueError("a weight and a node for each edge, please")
        totals = weight.new_zeros(highest(index) + 1).index_add(0, index, weight)
        return weight / totals[index]

    shares.__doc__ = said
    shares = torch.library.custom_op(f"zoo::{name}", shares, mutates_args=())

    def fake(weight: Tensor, index: Tensor) -> Tensor:
        if weight.dim() != 1 or index.shape != weight.shape:
            raise ValueError("a weight and a node for each edge, please")
        return torch.empty_like(weight)

    shares.register_fake(fake)
    return shares


EDGES = (tensor(5, low=0.5, high=1), tensor(values=[0, 4, 2, 1, 0]))


@specimen(
    EDGES,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="index.none",
    skips={"fake.symbolic": "no-second-size"},
)
def raises_without_an_edge():
    """Takes the maximum of no nodes."""
    return _shares("raises_without_an_edge", lambda index: int(index.max()))


@specimen(EDGES, twin_of="raises_without_an_edge", skips={"fake.symbolic": "no-second-size"})
def takes_at_least_one_edge():
    """Takes the maximum of no nodes, which the docstring does not allow."""
    return _shares(
        "takes_at_least_one_edge",
        lambda index: int(index.max()),
        "index: (E,), E >= 1, of each edge",
    )


@specimen(EDGES, twin_of="raises_without_an_edge", skips={"fake.symbolic": "no-second-size"})
def returns_without_an_edge():
    """Returns an empty result."""
    return _shares("returns_without_an_edge", lambda index: int(index.max()) if len(index) else 0)


def _total(name, dtype_of):
    """A weighted sum of rows; `dtype_of(x, weight)` is the dtype that the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def total(x: Tensor, weight: Tensor) -> Tensor:
        """The sum of rows, each with its weight; the result has the promoted dtype of both."""
        if x.dim() != 2 or weight.dim() != 1 or len(x) != len(weight):
            raise ValueError("a matrix, and a weight for each row, please")
        return (x * weight[:, None]).sum(0)

    total.register_fake(
        lambda x, weight: x.new_empty(x.shape[1], dtype=dtype_of(x, weight), device=x.device)
    )
    return total


WEIGHTED = (tensor(4, 3), tensor(4))


@specimen(WEIGHTED, variant_findings=DTYPE, shown_by="weight.float64")
def fake_of_the_first_dtype():
    """The fake kernel gives the dtype of the first argument, and not the promoted one."""
    return _total("fake_of_the_first_dtype", lambda x, weight: x.dtype)


@specimen(WEIGHTED, twin_of="fake_of_the_first_dtype")
def fake_of_the_promoted_dtype():
    """Both kernels promote."""
    return _total(
        "fake_of_the_promoted_dtype", lambda x, weight: torch.promote_types(x.dtype, weight.dtype)
    )


def _distance(name, second):
    """The squared distance; `second(gradient)` is what the backward gives for the second argument."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distance(x: Tensor, y: Tensor) -> Tensor:
        """The squared distance of two points. Differentiable with respect to both."""
        if x.dtype != y.dtype:
            raise TypeError("points of one dtype, please")
        return (x - y).square().sum()

    distance.register_fake(lambda x, y: x.new_empty(()))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad) -> Tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        gradient = 2 * grad * (x - y)
        return gradient, second(gradient)

    distance.register_autograd(backward, setup_context=setup)
    return distance


PAIR = (torch.linspace(-1, 1, 5), torch.linspace(0, 3, 5).flip(0))


@specimen(PAIR, expected={"gradcheck.backward": "gradient-missing"}, plain=(PAIR,))
def no_gradient_for_the_second():
    """Gives None for an argument of which the docstring says that there is a gradient."""
    return _distance("no_gradient_for_the_second", lambda gradient: None)


@specimen(PAIR, twin_of="no_gradient_for_the_second")
def gradients_for_both():
    """Gives both."""
    return _distance("gradients_for_both", lambda gradient: -gradient)


def _scaled_sines(name, of_scale):
    """Sines with a scale that need not be given; `of_scale(gradient)` is what the backward gives for it."""

    def check(x, scale=None):
        if x.dim() != 1 or (scale is not None and (scale.shape, scale.dtype) != (x.shape, x.dtype)):
            raise ValueError("a row, and a scale like it, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor, scale: Optional[Tensor] = None) -> Tensor:
        """Sines. `scale`, (N,), is a constant: it gets no gradient."""
        check(x, scale)
        return x.sin() if scale is None else x.sin() * scale

    @scaled.register_fake
    def _(x, scale=None):
        check(x, scale)
        return torch.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        gradient = grad * x.cos()
        return (gradient, None) if scale is None else (gradient * scale, of_scale(grad * x.sin()))

    scaled.register_autograd(backward, setup_context=setup)
    return scaled


ROW = (torch.linspace(-1, 1, 5).requires_grad_(),)


@specimen(ROW, variant_notes={"gradcheck.backward": "gradient-missing"}, shown_by="scale.given")
def scale_without_a_gradient():
    """Gives no gradient for a scale, and says so."""
    return _scaled_sines("scale_without_a_gradient", lambda gradient: None)


@specimen(ROW, twin_of="scale_without_a_gradient")
def scale_with_a_gradient():
    """Gives one all the same."""
    return _scaled_sines("scale_with_a_gradient", lambda gradient: gradient)


def _gated(name, cast):
    """One half of the columns times the sigmoid of the other; `cast(gate)` goes into it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gated(x: Tensor) -> Tensor:
        """Gated columns, in float32 or float64."""
        if x.dim() != 2 or x.shape[1] % 2 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a matrix of an even number of columns, please")
        gate, up = x.chunk(2, 1)
        return (torch.sigmoid(cast(gate)).to(x.dtype) * up).contiguous()

    gated.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[1] // 2))
    return gated


@specimen(
    (torch.linspace(-2, 3, 32).reshape(4, 8),),
    variant_findings={"relations.precision": "result-narrowed"},
    shown_by="float64",
)
def gate_in_float32():
    """Computes one factor in float32, though float64 is documented."""
    return _gated("gate_in_float32", torch.Tensor.float)


@specimen((torch.linspace(-2, 3, 32).reshape(4, 8),), twin_of="gate_in_float32")
def gate_in_its_own_dtype():
    """Computes it in the dtype of the argument."""
    return _gated("gate_in_its_own_dtype", lambda gate: gate)


def _lengths(name, cast):
    """The length of each row; `cast(x)` is what is computed with."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def lengths(x: Tensor) -> Tensor:
        """The length of each row of x (N, D).

        x: float32 and float64 are computed in their own precision, half types in single precision.
        """
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows, please")
        return cast(x).square().sum(1).sqrt().to(x.dtype)

    lengths.register_fake(lambda x: x.new_empty(x.shape[0]))
    return lengths


@specimen(
    (torch.linspace(-2, 3, 10).reshape(2, 5),),
    variant_findings={"relations.precision": "result-narrowed"},
    shown_by="float64",
)
def two_lengths_in_float32():
    """Computes all dtypes in float32; there are two results."""
    return _lengths("two_lengths_in_float32", torch.Tensor.float)


@specimen((torch.linspace(-2, 3, 10).reshape(2, 5),), twin_of="two_lengths_in_float32")
def two_lengths_in_their_own_dtype():
    """Computes half precision alone in float32."""
    return _lengths("two_lengths_in_their_own_dtype", lambda x: x.float() if x.itemsize == 2 else x)


def _power(name, dtype_of):
    """The squares of samples or counts; `dtype_of(x)` is what the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def power(x: Tensor) -> Tensor:
        """Squares.

        x: float32 or float64, or counts as int16. Squares of counts are float32.
        """
        return (x if x.is_floating_point() else x.float()).square().contiguous()

    power.register_fake(lambda x: x.new_empty(x.shape, dtype=dtype_of(x)))
    return power


@specimen((tensor(4, 3),), variant_findings=DTYPE, shown_by="int16")
def fake_keeps_the_dtype_of_counts():
    """The fake kernel gives the dtype of counts, which a docstring alone names."""
    return _power("fake_keeps_the_dtype_of_counts", lambda x: x.dtype)


@specimen((tensor(4, 3),), twin_of="fake_keeps_the_dtype_of_counts")
def fake_gives_float32_for_counts():
    """It gives float32 for them."""
    return _power(
        "fake_gives_float32_for_counts",
        lambda x: x.dtype if x.is_floating_point() else torch.float32,
    )


ERRORS = {"errors.documented": "documented-error-missing"}
aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])


def _scaled(name, check):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        """Two times x, computed in C.

        x: float32 or float64. Other dtypes raise TypeError.
        """
        check(x)
        wide = numpy.frombuffer(x.contiguous().numpy().tobytes(), dtype=_SIZES[x.element_size()])
        return torch.from_numpy((2 * wide).view(str(x.dtype).split(".")[1])).reshape(x.shape)

    @scaled.register_fake
    def _(x):
        check(x)
        return x.new_empty(x.shape)

    return scaled


_SIZES = {4: "float32", 8: "float64"}


@aot((tensor(4, 3),), expected=ERRORS)
def takes_the_size_for_the_dtype():
    """Lets whole numbers through, and reads their bits as those of floating-point numbers."""

    def check(x):
        if x.element_size() not in _SIZES:
            raise TypeError(f"expected float32 or float64, got {x.dtype}")

    return _scaled("takes_the_size_for_the_dtype", check)


@aot((tensor(4, 3),), twin_of="takes_the_size_for_the_dtype")
def asks_for_the_dtype():
    """Rejects every other dtype."""

    def check(x):
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"expected float32 or float64, got {x.dtype}")

    return _scaled("asks_for_the_dtype", check)


IDS = torch.tensor([0, 3, 1, 1, 4])


def _picked(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def picked(table: Tensor, ids: Tensor) -> Tensor:
        """Rows of a table.

        table: (N, D), N not 0
        ids: (K,), int64. An id outside of [0, N) raises IndexError.
        """
        return kernel(table, ids)

    @picked.register_fake
    def _(table, ids):
        return table.new_empty(ids.shape[0], *table.shape[1:])

    return picked


@aot((tensor(5, 3), IDS), expected=ERRORS)
def counts_ids_from_the_end():
    """Takes an id of -1 for the last row, as indexing does."""
    return _picked("counts_ids_from_the_end", lambda table, ids: table[ids])


@aot((tensor(5, 3), IDS), expected=ERRORS)
def takes_the_number_of_rows():
    """Takes the number of rows for an id, and gives zeros."""

    def kernel(table, ids):
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) > len(table)):
            raise IndexError("an id is outside of the table")
        return torch.cat([table, torch.zeros_like(table[:1])])[ids]

    return _picked("takes_the_number_of_rows", kernel)


def _codes(name, rejects):
    """The number of codes 1; `rejects(codes)` says whether one is none."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def ones(codes: Tensor) -> Tensor:
        """Counts the codes 1.

        codes: (N,) int64, each 0..3. Any code outside 0..3, such as a padding value, raises ValueError.
        """
        if codes.dim() != 1 or codes.dtype != torch.int64:
            raise ValueError("codes (N,) as int64, please")
        if codes.numel() and rejects(codes):
            raise ValueError("codes are from 0 to 3")
        return torch.tensor([0, 1, 0, 0])[codes].sum()

    ones.register_fake(lambda codes: codes.new_empty(()))
    return ones


CODES = (torch.tensor([0, 3, 1, 2, 1]),)


@aot(CODES, expected=ERRORS)
def takes_padding_for_a_code():
    """Takes a code of -1 for the last one."""
    return _codes("takes_padding_for_a_code", lambda codes: int(codes.max()) > 3)


@aot(CODES, twin_of="takes_padding_for_a_code")
def rejects_padding():
    """Rejects codes at both ends."""
    return _codes("rejects_padding", lambda codes: bool(((codes < 0) | (codes > 3)).any()))


def _rated(name, rejects):
    """How many games each player has; `rejects(games, players)` says whether one is not there."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rated(ratings: Tensor, games: Tensor) -> Tensor:
        """Adds 1 for each game to the ratings of players.

        ratings [P] has numbers, and games [G] (int64) names the player of each game, 0 .. P - 1.
        Raises ValueError for a player outside 0 .. P - 1, and for wrong shapes.
        """
        if ratings.dim() != 1 or games.dim() != 1 or games.dtype != torch.int64:
            raise ValueError("ratings (P,) and games (G,), please")
        if games.numel() and rejects(games, ratings.shape[0]):
            raise ValueError("no such player")
        found = ratings.clone()
        for player in games.tolist():
            found[player] += 1
        return found

    rated.register_fake(lambda ratings, games: torch.empty_like(ratings))
    return rated


GAMES = (torch.tensor([1.5, 2.5, 0.5]), torch.tensor([0, 2, 1, 1]))


@aot(GAMES, expected=ERRORS, requires_grad=[False])
def rates_the_last_player_for_none():
    """Takes a player of -1 for the last one."""
    return _rated("rates_the_last_player_for_none", lambda games, count: int(games.max()) >= count)


@aot(GAMES, twin_of="rates_the_last_player_for_none", requires_grad=[False])
def rates_players_only():
    """Rejects players at both ends."""
    return _rated(
        "rates_players_only",
        lambda games, count: int(games.max()) >= count or int(games.min()) < 0,
    )


@aot((tensor(5, 3), IDS), twin_of=("counts_ids_from_the_end", "takes_the_number_of_rows"))
def rejects_ids_below_zero():
    """Raises."""

    def kernel(table, ids):
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= len(table)):
            raise IndexError("an id is outside of the table")
        return table[ids]

    return _picked("rejects_ids_below_zero", kernel)


@aot((tensor(5, 3), IDS, 2), twin_of="counts_ids_from_the_end")
def looks_at_the_first_ids():
    """The docstring speaks of ids, and those behind the first few are not looked at."""

    @torch.library.custom_op("zoo::looks_at_the_first_ids", mutates_args=())
    def picked(table: Tensor, ids: Tensor, count: int) -> Tensor:
        """The rows at the first ids, added up.

        ids: (K,), int64. An id outside of [0, N) raises IndexError.
        count: how many.
        """
        if count < 0 or count > len(ids):
            raise ValueError("there are not so many ids")
        first = ids[:count]
        if first.numel() and (int(first.min()) < 0 or int(first.max()) >= len(table)):
            raise IndexError("an id is outside of the table")
        return table[first].sum(0)

    @picked.register_fake
    def _(table, ids, count):
        if count < 0 or count > ids.shape[0]:
            raise ValueError("there are not so many ids")
        return table.new_empty(table.shape[1:])

    return picked


def _bags(name, accumulate, said=""):
    """The sums of rows of a table, one for each bag of items."""

    def kernel(table, items, offsets):
        check(table, items, offsets)
        if len(offsets) and (
            int(offsets[0]) or int(offsets[-1]) > len(items) or bool((offsets.diff() < 0).any())
        ):
            raise ValueError("malformed offsets")
        if len(items) and not (
            len(offsets) and 0 <= int(items.min()) <= int(items.max()) < len(table)
        ):
            raise IndexError("an item is not in the table")
        total = table.new_zeros(len(offsets), table.shape[1])
        return total.index_add(0, bags(items, offsets), table[items])

    def check(table, items, offsets):
        if table.dim() != 2 or items.dim() != 1 or offsets.dim() != 1:
            raise ValueError("a table, and two lists, please")
        if not (items.dtype == offsets.dtype == torch.int64):
            raise TypeError("items and offsets as int64, please")

    def bags(items, offsets):
        return torch.searchsorted(offsets.contiguous(), torch.arange(len(items)), right=True) - 1

    def summed(table: Tensor, items: Tensor, offsets: Tensor) -> Tensor:
        return kernel(table, items, offsets)

    summed.__doc__ = f"""The sum of the rows of each bag.

        table: (N, D)
        items: (K,), int64, those of all bags one after the other{said}
        offsets: (B,), int64, where each bag begins; from 0 on, not descending, <= K

        TypeError for other dtypes, ValueError for malformed offsets, IndexError for items out of range.
        """
    operator = torch.library.custom_op(f"zoo::{name}", summed, mutates_args=())

    @operator.register_fake
    def _(table, items, offsets):
        check(table, items, offsets)
        return table.new_empty(offsets.shape[0], table.shape[1])

    def backward(ctx, grad):
        table, items, offsets = ctx.saved_tensors
        rows = grad[bags(items, offsets)]
        return torch.zeros_like(table).index_put((items,), rows, accumulate=accumulate), None, None

    operator.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return operator


MISMATCH = {"gradcheck.backward": "gradient-mismatch"}
NO_SIZE = {"fake.symbolic": "no-second-size"}
DESCENDING = (tensor(10, 4), torch.tensor([7, 2, 9, 0, 4]), torch.tensor([0, 2, 3]))
ASCENDING = (tensor(10, 4), torch.tensor([2, 7, 9, 0, 4]), torch.tensor([0, 2, 3]))


@specimen(DESCENDING, variant_findings=MISMATCH, shown_by="items.repeated", skips=NO_SIZE)
def keeps_one_gradient_of_an_item():
    """The backward overwrites where an item comes twice; those of a bag are in no order."""
    return _bags("keeps_one_gradient_of_an_item", accumulate=False)


@specimen(ASCENDING, variant_findings=MISMATCH, shown_by="items.repeated", skips=NO_SIZE)
def keeps_one_gradient_as_documented_it_may_not():
    """The same, where the docstring says that an item may come twice."""
    return _bags(
        "keeps_one_gradient_as_documented_it_may_not",
        accumulate=False,
        said="; an item may come more than once",
    )


@specimen(ASCENDING, variant_findings=MISMATCH, shown_by="items.in_two_parts", skips=NO_SIZE)
def items_of_a_bag_in_order():
    """Right if the items of a bag are different ones, as in the sample, but not if two bags have one."""
    return _bags("items_of_a_bag_in_order", accumulate=False)


@specimen(
    DESCENDING,
    twin_of=(
        "keeps_one_gradient_of_an_item",
        "keeps_one_gradient_as_documented_it_may_not",
        "items_of_a_bag_in_order",
    ),
    skips=NO_SIZE,
)
def adds_up_the_gradients_of_an_item():
    """The backward adds up. An offset may be the number of items, which is the size of a tensor."""
    return _bags("adds_up_the_gradients_of_an_item", accumulate=True)


@specimen(
    (tensor(8, 3), torch.tensor([1, 6, 5, 3]), torch.tensor([0, 3])),
    twin_of="keeps_one_gradient_of_an_item",
    skips=NO_SIZE,
)
def last_bag_of_one_item():
    """The same: its last offset may be 4, the number of items, and not 5."""
    return _bags("last_bag_of_one_item", accumulate=True)


def _neighbours(name, masked):
    """Rows at positions; `masked(rows, index)` are those whose gradients count."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gathered(x: Tensor, index: Tensor) -> Tensor:
        """Rows of neighbours.

        x: (N, D)
        index: (M,), int64, 0 to N - 1, or -1 where there are fewer neighbours: zeros stand there
        """
        if x.dim() != 2 or index.dim() != 1 or index.dtype != torch.int64:
            raise ValueError("rows, and a list of positions, please")
        if index.numel() and not -1 <= int(index.min()) <= int(index.max()) < len(x):
            raise IndexError("no such neighbour")
        return torch.where(
            (index < 0)[:, None], 0, x[index] if len(x) else x.new_zeros(len(index), x.shape[1])
        )

    @gathered.register_fake
    def _(x, index):
        if x.dim() != 2 or index.dim() != 1 or index.dtype != torch.int64:
            raise ValueError("rows, and a list of positions, please")
        return x.new_empty(index.shape[0], x.shape[1])

    def backward(ctx, grad):
        x, index = ctx.saved_tensors
        return torch.zeros_like(x).index_add(0, index % len(x), masked(grad, index)), None

    gathered.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return gathered


NEIGHBOURS = (tensor(6, 2), torch.tensor([0, 3, 3, 5, 1]))


@specimen(NEIGHBOURS, variant_findings=MISMATCH, shown_by="index.has.-1", skips=NO_SIZE)
def gradient_of_missing_neighbours():
    """The gradient of what is not there goes to the last row."""
    return _neighbours("gradient_of_missing_neighbours", lambda grad, index: grad)


@specimen(NEIGHBOURS, twin_of="gradient_of_missing_neighbours", skips=NO_SIZE)
def no_gradient_of_missing_neighbours():
    """It is left out."""
    return _neighbours(
        "no_gradient_of_missing_neighbours",
        lambda grad, index: torch.where((index < 0)[:, None], 0, grad),
    )


def _centred(name, weighed):
    """Rows without their weighted mean; `weighed(weights, dtype)` are the weights, which add up to 1."""

    def check(x, weights):
        if x.dim() != 2 or not x.is_floating_point() or weights.shape != x.shape[:1]:
            raise ValueError("rows, and a weight for each, please")
        if weights.dtype == torch.bool or weights.dtype.is_complex:
            raise TypeError("weights are real numbers")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def centred(x: Tensor, weights: Tensor) -> Tensor:
        """Rows without their weighted mean.

        x: (N, D)
        weights: (N,), how often each row counts: whole numbers, or floating-point ones
        """
        check(x, weights)
        return (x - (weighed(weights, x.dtype)[:, None] * x).sum(0)).contiguous()

    @centred.register_fake
    def _(x, weights):
        check(x, weights)
        return x.new_empty(x.shape)

    return centred


def _in_place(weights, dtype):
    weights = weights.to(dtype)
    weights /= weights.sum()
    return weights


WEIGHTS = (tensor(4, 3), torch.tensor([1, 3, 2, 2]))


@specimen(
    WEIGHTS,
    requires_grad=[False],
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="weights.float32",
    skips=NO_SIZE,
)
def divides_the_weights_in_place():
    """Divides in place what `to` has copied, if the weights had another dtype."""
    return _centred("divides_the_weights_in_place", _in_place)


@specimen(WEIGHTS, requires_grad=[False], twin_of="divides_the_weights_in_place", skips=NO_SIZE)
def divides_copied_weights():
    """Divides into new memory."""
    return _centred(
        "divides_copied_weights", lambda weights, dtype: weights.to(dtype) / weights.sum().to(dtype)
    )


def _runs(name, first):
    """The bytes at the beginnings of runs of equal bytes; `first(text)` says where the first one begins."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def runs(text: Tensor) -> Tensor:
        if text.dim() != 1:
            raise ValueError("a text, please")
        begins = torch.cat([first(text), text[1:] != text[:-1]])
        return text[begins.nonzero().flatten()]

    def fake(text: Tensor) -> Tensor:
        if text.dim() != 1:
            raise ValueError("a text, please")
        return text.new_empty(torch.library.get_ctx().new_dynamic_size())

    runs.register_fake(fake)
    return runs


TEXT = (torch.tensor([65, 65, 66, 70, 70, 70], dtype=torch.uint8),)


@specimen(
    TEXT,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="text.none",
    skips=NO_SIZE,
)
def runs_of_no_bytes():
    """A text without bytes has a first run, too; how many runs there are depends on data."""
    return _runs("runs_of_no_bytes", lambda text: torch.ones(1, dtype=torch.bool))


@specimen(TEXT, twin_of="runs_of_no_bytes", skips=NO_SIZE)
def runs_of_some_bytes():
    """A text without bytes has no run."""
    return _runs("runs_of_some_bytes", lambda text: torch.ones(min(1, len(text)), dtype=torch.bool))


ATTENTION = (tensor(2, 3, 4), tensor(2, 5, 4), tensor(2, 5, 4))


def _attention(name, size):
    """Attention; `size(query, value)` is the last size of the result by the fake kernel."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention by products of at least 0.

        Args:
            query: (B, T, D)
            key: (B, S, D)
            value: (B, S, Dv)

        Returns:
            (B, T, Dv)
        """
        check(query, key, value)
        products = (query.unsqueeze(2) * key.unsqueeze(1)).sum(-1).relu()
        return (products.unsqueeze(3) * value.unsqueeze(1)).sum(2)

    def check(query, key, value):
        fits = key.shape[1:] == (value.shape[1], query.shape[2])
        if not fits or not query.shape[0] == key.shape[0] == value.shape[0]:
            raise ValueError("queries, and as many keys as values, please")
        if not query.dtype == key.dtype == value.dtype:
            raise ValueError("one dtype, please")

    @attention.register_fake
    def _(query, key, value):
        check(query, key, value)
        return query.new_empty(*query.shape[:2], size(query, value))

    return attention


@specimen(
    ATTENTION,
    variant_findings={"fake.forward": "fake-shape-mismatch"},
    shown_by="apart.4",
)
def values_as_wide_as_queries():
    """The fake kernel takes the width of the queries, which the docstring tells from that of the values."""
    return _attention("values_as_wide_as_queries", lambda query, value: query.shape[-1])


@specimen(ATTENTION, twin_of="values_as_wide_as_queries")
def values_of_their_own_width():
    """It takes that of the values."""
    return _attention("values_of_their_own_width", lambda query, value: value.shape[-1])


def _gates(name, check):
    """Rows of tokens, each times its gate; `check(rows, gate)` raises for gates of another size."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def gated(x: Tensor, index: Tensor, gate: Optional[Tensor]) -> Tensor:
        rows = x.index_select(0, index)
        if gate is None:
            return rows
        check(rows, gate)
        return (rows * gate.detach().to(x.dtype).unsqueeze(1)).contiguous()

    gated.register_fake(lambda x, index, gate: x.new_empty(index.shape[0], x.shape[1]))
    return gated


TOKENS = (
    (tensor(4, 6), torch.tensor([2, 0, 3, 1]), tensor(4)),
    (tensor(5, 3), torch.tensor([4, 1, 0]), None),
)


@specimen(
    *TOKENS,
    variant_notes={"fake.forward": "fake-shape-mismatch"},
    shown_by="gate.given",
    skips={"fake.symbolic": "no-second-size"},
)
def gates_of_slots():
    """Right, but a gate as large as the tokens, which no sample shows, is broadcast."""
    return _gates("gates_of_slots", lambda rows, gate: None)


@specimen(*TOKENS, twin_of="gates_of_slots", skips={"fake.symbolic": "no-second-size"})
def gates_of_as_many_slots():
    """It rejects gates of another size."""

    def check(rows, gate):
        if gate.shape != rows.shape[:1]:
            raise ValueError("a gate for each row, please")

    return _gates("gates_of_as_many_slots", check)


def _ratio(name, gradient):
    """num / den, and 0 where den is 0; `gradient(grad, den)` is that of num."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def ratio(num: Tensor, den: Tensor) -> Tensor:
        """``num / den``, and 0 wherever ``den`` is zero."""
        if num.shape != den.shape or num.dtype != den.dtype:
            raise ValueError("two tensors of one shape and dtype, please")
        safe = torch.where(den == 0, 1, den)
        return torch.where(den == 0, 0, num / safe).contiguous()

    @ratio.register_fake
    def _(num, den):
        if num.shape != den.shape or num.dtype != den.dtype:
            raise ValueError("two tensors of one shape and dtype, please")
        return num.new_empty(num.shape)

    def backward(ctx, grad):
        num, den = ctx.saved_tensors
        by_num = gradient(grad, den)
        safe = torch.where(den == 0, 1, den)
        return by_num, torch.where(den == 0, 0, -by_num * num / safe)

    ratio.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return ratio


RATIO = (tensor(3, 4), tensor(3, 4, low=0.5, high=1.5))


@specimen(
    RATIO,
    variant_findings={"gradcheck.backward": "gradient-not-finite"},
    shown_by="den.has.0",
)
def multiplies_infinity_by_a_mask():
    """0 * inf is NaN: the mask comes after the division, where the docstring says that den may be 0."""
    return _ratio("multiplies_infinity_by_a_mask", lambda grad, den: grad / den * (den != 0))


@specimen(RATIO, twin_of="multiplies_infinity_by_a_mask")
def masks_before_the_division():
    """Divides by 1 there."""
    return _ratio(
        "masks_before_the_division",
        lambda grad, den: torch.where(den == 0, 0, grad / torch.where(den == 0, 1, den)),
    )


def _normed(name, dtype):
    """Rows by their root mean square and a weight; `dtype(x, weight)` is that of the result."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def normed(x: Tensor, weight: Tensor) -> Tensor:
        """x (B, D) by the root mean square of each row, times weight (D,).

        The weight may be kept in float32 while x is in half precision.
        """
        if x.dim() != 2 or weight.shape != x.shape[1:]:
            raise ValueError("rows, and a weight for each column, please")
        if weight.dtype not in (x.dtype, torch.float32):
            raise TypeError("a weight of the same dtype, or of float32, please")
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        size = (wide.square().mean(1, keepdim=True) + 1e-6).sqrt()
        return (wide / size * weight).to(dtype(x, weight)).contiguous()

    normed.register_fake(lambda x, weight: x.new_empty(x.shape))
    return normed


NORMED = (tensor(4, 6), tensor(6))


@specimen(NORMED, requires_grad=[False], variant_findings=DTYPE, shown_by="weight.wider")
def result_in_the_wider_dtype():
    """The result has the dtype of a wider weight, which the fake kernel does not know."""
    return _normed(
        "result_in_the_wider_dtype", lambda x, weight: torch.promote_types(x.dtype, weight.dtype)
    )


@specimen(NORMED, requires_grad=[False], twin_of="result_in_the_wider_dtype")
def result_in_the_dtype_of_rows():
    """The result has the dtype of the rows."""
    return _normed("result_in_the_dtype_of_rows", lambda x, weight: x.dtype)


@specimen(
    (torch.tensor([[0.5, 1.5, 2.5], [0.7, 1.2, 2.9], [3.5, 0.5, 1.5], [3.6, 0.4, 1.2]]),),
    twin_of="raises_without_a_center",
)
def places_of_three_numbers():
    """Correct: there may be no places, but each has three numbers: without them it raises by accident."""

    @torch.library.custom_op("zoo::places_of_three_numbers", mutates_args=())
    def counts(places: Tensor) -> Tensor:
        """How many of the places lie in the cell of each.

        places: (N, 3), finite; N may be 0.
        """
        cells = places.double().floor()
        if not len(cells):
            return cells.new_empty(0, dtype=torch.int64)
        _, inverse, count = torch.unique(cells, dim=0, return_inverse=True, return_counts=True)
        return count[inverse].contiguous()

    counts.register_fake(lambda places: places.new_empty(places.shape[0], dtype=torch.int64))
    return counts


def _wrapped(name, about, share=lambda edge: edge / edge):
    """Numbers less the nearest multiple of an edge; `share(edge)` is what the backward multiplies by."""

    def wrapped(x: Tensor, edge: float) -> Tensor:
        return torch.where((x / edge).isfinite(), x - edge * (x / edge).round(), 0).contiguous()

    wrapped.__doc__ = f"Each number less the nearest multiple of an edge.\n\nedge: {about}\n"
    operator = torch.library.custom_op(f"zoo::{name}", wrapped, mutates_args=())
    operator.register_fake(lambda x, edge: x.new_empty(x.shape))

    def backward(ctx, grad):
        return grad * share(torch.full_like(grad, ctx.edge)), None

    def setup(ctx, inputs, output):
        ctx.edge = inputs[1]

    operator.register_autograd(backward, setup_context=setup)
    return operator


EDGE = (tensor(4, 3, low=0.1, high=0.9), 2.0)
ZERO_EDGE = {"gradcheck.backward": "gradient-not-finite"}


@specimen(EDGE, variant_findings=ZERO_EDGE, shown_by="edge.0.0")
def divides_by_an_edge_that_may_be_zero():
    """The docstring allows 0, for which the gradient is NaN."""
    return _wrapped("divides_by_an_edge_that_may_be_zero", "0 or more; 0 gives 0 everywhere.")


@specimen(EDGE, variant_notes=ZERO_EDGE, shown_by="edge.0.0")
def divides_by_an_edge():
    """No edge is 0 in use, though the op accepts it."""
    return _wrapped("divides_by_an_edge", "the edge of a box.")


@specimen(EDGE, twin_of=("divides_by_an_edge", "divides_by_an_edge_that_may_be_zero"))
def divides_by_no_edge():
    """The gradient is 0 where the edge is, and 1 elsewhere."""
    about = "0 or more; 0 gives 0 everywhere."
    return _wrapped("divides_by_no_edge", about, lambda edge: (edge != 0).to(edge.dtype))


def _left_padded(name, place):
    """Sequences behind padding; `place(count, width)` is where one of `count` ids is in its row."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def padded(sequences: List[Tensor]) -> Tensor:
        """Sequences in one matrix (N, T), behind zeros.

        Args:
            sequences: non-empty list of int64 tensors (T,) of any lengths, zero included.
        """
        check(sequences)
        width = max(each.shape[0] for each in sequences)
        rows = sequences[0].new_zeros(len(sequences), width)
        for row, each in zip(rows, sequences, strict=True):
            row[place(len(each), width)] = each
        return rows

    def check(sequences):
        if not sequences or any(each.dim() != 1 or each.dtype != torch.int64 for each in sequences):
            raise ValueError("some sequences of int64, please")

    @padded.register_fake
    def _(sequences):
        check(sequences)
        width = max(each.shape[0] for each in sequences)
        return sequences[0].new_empty(len(sequences), width)

    return padded


SEQUENCES = ([torch.tensor([5, 3, 8]), torch.tensor([4, 7])],)


@specimen(
    SEQUENCES,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="empty0",
)
def pads_an_empty_sequence_from_minus_0():
    """The last 0 of a row are the whole row."""
    return _left_padded(
        "pads_an_empty_sequence_from_minus_0", lambda count, width: slice(-count, None)
    )


@specimen(SEQUENCES, twin_of="pads_an_empty_sequence_from_minus_0")
def pads_an_empty_sequence():
    """Counts from the start of the row."""
    return _left_padded("pads_an_empty_sequence", lambda count, width: slice(width - count, None))


def _biases(name, width_of):
    """Biases of pairs of places of a window; `width_of(h, w)` is the width of the table's rows."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def biases(table: Tensor, h: int, w: int) -> Tensor:
        """The bias (h * w, h * w) of each pair of places in a window of h rows and w columns.

        table: ((2 * h - 1) * (2 * w - 1),), for each number of rows and columns between two places.
        """
        check(table, h, w)
        places = torch.arange(h * w)
        rows = (places // w)[:, None] - places // w + h - 1
        columns = (places % w)[:, None] - places % w + w - 1
        return table[rows * width_of(h, w) + columns]

    def check(table, h, w):
        if h < 1 or w < 1 or table.dim() != 1:
            raise ValueError("a window, and a row of biases, please")
        torch._check(
            table.shape[0] == (2 * h - 1) * (2 * w - 1), lambda: "a table that fits, please"
        )

    @biases.register_fake
    def _(table, h, w):
        check(table, h, w)
        return table.new_empty(h * w, h * w)

    return biases


SQUARE = (tensor(25), 3, 3)


@specimen(
    SQUARE,
    variant_findings=dict.fromkeys(ON_SHAPES, "eager-raises"),
    shown_by="h.by_formula",
    skips={"fake.symbolic": "no-second-size"},
)
def takes_the_height_for_the_width():
    """Right for square windows; for higher ones it looks behind the table."""
    return _biases("takes_the_height_for_the_width", lambda h, w: 2 * h - 1)


@specimen(
    SQUARE,
    twin_of="takes_the_height_for_the_width",
    skips={"fake.symbolic": "no-second-size"},
)
def takes_the_width_of_a_window():
    """Right for all windows."""
    return _biases("takes_the_width_of_a_window", lambda h, w: 2 * w - 1)


@aot((torch.tensor([5, 900, 31, 7]), 64))
def takes_keys_of_32_bits():
    """Correct: large keys are in the documented range, and only those beyond it raise."""

    @torch.library.custom_op("zoo::takes_keys_of_32_bits", mutates_args=())
    def op(keys: Tensor, buckets: int) -> Tensor:
        """The bucket of each key.

        Args:
            keys: int64, values in [0, 2 ** 32).
            buckets: 1 or more.

        Raises:
            ValueError: if a key or a number is out of range.
        """
        if keys.dtype != torch.int64 or buckets < 1:
            raise ValueError("int64 keys, and some buckets, please")
        if keys.numel() and not 0 <= int(keys.min()) <= int(keys.max()) < 2**32:
            raise ValueError("keys of 32 bits, please")
        return torch.remainder(keys * 2654435761, buckets).contiguous()

    op.register_fake(lambda keys, buckets: keys.new_empty(keys.shape))
    return op
