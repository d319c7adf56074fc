"""Ops over edges, pairs and picked rows that come twice, where equal positions everywhere show nothing."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

POINTS = tensor(7, 3)
EDGES = tensor(values=[[0, 1, 2], [3, 4, 6]])
MISMATCH = {"gradcheck.backward": "gradient-mismatch"}
NO_SIZE = {"fake.symbolic": "no-second-size"}  # the listed positions may refer to every size


def _put(into, at, values, accumulate):
    return into.index_put((at,), values, accumulate=accumulate)


def _with_gradient_of_positions(op, gradient):
    """Registers `gradient(x, index, grad)` as the backward of an op of points and positions."""
    op.register_autograd(
        lambda ctx, grad: (gradient(*ctx.saved_tensors, grad), None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def _edge_energies(name, accumulate):
    """The squared length of each edge; none has one that is a loop."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def energies(x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or x.dim() != 2:
            raise ValueError("points, and two rows of positions, please")
        return (x[edge_index[0]] - x[edge_index[1]]).square().sum(-1)

    energies.register_fake(lambda x, edge_index: x.new_empty(edge_index.shape[1]))

    def gradient(x, edge_index, grad):
        pull = 2 * grad[:, None] * (x[edge_index[0]] - x[edge_index[1]])
        first = _put(torch.zeros_like(x), edge_index[0], pull, accumulate)
        return first - _put(torch.zeros_like(x), edge_index[1], pull, accumulate)

    return _with_gradient_of_positions(energies, gradient)


@specimen((POINTS, EDGES), variant_findings=MISMATCH, shown_by="edge_index.repeated", skips=NO_SIZE)
def keeps_the_pull_of_the_last_edge():
    """The backward overwrites where a node has two edges, and loops pull at nothing."""
    return _edge_energies("keeps_the_pull_of_the_last_edge", accumulate=False)


@specimen((POINTS, EDGES), twin_of="keeps_the_pull_of_the_last_edge", skips=NO_SIZE)
def adds_up_the_pull_of_edges():
    """The backward adds up over the edges of a node."""
    return _edge_energies("adds_up_the_pull_of_edges", accumulate=True)


def _pair_products(name, accumulate):
    """The product of each pair of points, 0 for a point with itself."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def products(x: Tensor, pair_idx: Tensor) -> Tensor:
        if pair_idx.dim() != 2 or pair_idx.shape[1] != 2 or x.dim() != 2:
            raise ValueError("points, and pairs of positions, please")
        i, j = pair_idx.unbind(1)
        return (x[i] * x[j]).sum(-1) * (i != j)

    products.register_fake(lambda x, pair_idx: x.new_empty(pair_idx.shape[0]))

    def gradient(x, pair_idx, grad):
        i, j = pair_idx.unbind(1)
        scale = (grad * (i != j))[:, None]
        first = _put(torch.zeros_like(x), i, scale * x[j], accumulate)
        return first + _put(torch.zeros_like(x), j, scale * x[i], accumulate)

    return _with_gradient_of_positions(products, gradient)


PAIRS = (POINTS, tensor(values=[[0, 5], [2, 1], [4, 6]]))


@specimen(PAIRS, variant_findings=MISMATCH, shown_by="pair_idx.repeated", skips=NO_SIZE)
def overwrites_with_the_last_pair():
    """The backward overwrites where a point is in two pairs, and pairs of one point count for nothing."""
    return _pair_products("overwrites_with_the_last_pair", accumulate=False)


@specimen(PAIRS, twin_of="overwrites_with_the_last_pair", skips=NO_SIZE)
def adds_up_over_pairs():
    """The backward adds up over the pairs of a point."""
    return _pair_products("adds_up_over_pairs", accumulate=True)


def _deviations(name, accumulate):
    """Picked rows without their mean."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def deviations(x: Tensor, index: Tensor) -> Tensor:
        if index.dim() != 1 or x.dim() != 2:
            raise ValueError("a matrix, and a row of positions, please")
        picked = x[index]
        return picked - picked.mean(0)

    deviations.register_fake(lambda x, index: x.new_empty(*index.shape, *x.shape[1:]))

    def gradient(x, index, grad):
        return _put(torch.zeros_like(x), index, grad - grad.mean(0), accumulate)

    return _with_gradient_of_positions(deviations, gradient)


PICKED = (POINTS, tensor(values=[3, 0, 5, 2]))


@specimen(PICKED, variant_findings=MISMATCH, shown_by="index.repeated")
def overwrites_what_was_picked_twice():
    """The backward overwrites where a row is picked twice; rows that are all one have no deviations."""
    return _deviations("overwrites_what_was_picked_twice", accumulate=False)


@specimen(PICKED, twin_of="overwrites_what_was_picked_twice")
def adds_up_what_was_picked_twice():
    """The backward adds up."""
    return _deviations("adds_up_what_was_picked_twice", accumulate=True)


def _spread_of_neighbours(name, accumulate):
    """The differences of each point's neighbours, of which it has more than four."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def spread(x: Tensor, neighbor_idx: Tensor) -> Tensor:
        if neighbor_idx.dim() != 2 or x.dim() != 1:
            raise ValueError("numbers, and a matrix of positions, please")
        picked = x[neighbor_idx]
        return (picked - picked.mean()).contiguous()

    spread.register_fake(lambda x, neighbor_idx: x.new_empty(neighbor_idx.shape))

    def gradient(x, neighbor_idx, grad):
        return _put(torch.zeros_like(x), neighbor_idx, grad - grad.mean(), accumulate)

    return _with_gradient_of_positions(spread, gradient)


NEIGHBOURS = (tensor(20), tensor(values=[[1, 7, 3, 9, 5], [0, 6, 2, 8, 4], [19, 11, 13, 15, 17]]))


@specimen(NEIGHBOURS, variant_findings=MISMATCH, shown_by="neighbor_idx.repeated")
def overwrites_shared_neighbours():
    """The backward overwrites where two points have one neighbour."""
    return _spread_of_neighbours("overwrites_shared_neighbours", accumulate=False)


@specimen(NEIGHBOURS, twin_of="overwrites_shared_neighbours")
def adds_up_shared_neighbours():
    """The backward adds up."""
    return _spread_of_neighbours("adds_up_shared_neighbours", accumulate=True)


@specimen((tensor(5, 3), tensor(values=[3, 0, 4, 1, 2])))
def rows_in_another_order():
    """Correct: takes rows in another order, and the backward puts them back, as each comes once."""

    @torch.library.custom_op("zoo::rows_in_another_order", mutates_args=())
    def reordered(x: Tensor, perm: Tensor) -> Tensor:
        if perm.shape[0] != x.shape[0]:
            raise ValueError("a place for each row, please")
        return x[perm].contiguous()

    reordered.register_fake(lambda x, perm: x.new_empty(x.shape))
    return _with_gradient_of_positions(
        reordered, lambda x, perm, grad: _put(torch.zeros_like(grad), perm, grad, False)
    )


@specimen((tensor(6, 3), tensor(values=[5, 0, 3])))
def rejects_what_was_picked_twice():
    """Correct: the backward overwrites, and the op rejects positions that come twice."""

    @torch.library.custom_op("zoo::rejects_what_was_picked_twice", mutates_args=())
    def once(x: Tensor, index: Tensor) -> Tensor:
        rows = index % max(x.shape[0], 1)  # a row has two positions, one counted from the end
        if index.dim() != 1 or rows.unique().numel() != index.numel():
            raise ValueError("each row once, please")
        return x[index].contiguous()

    once.register_fake(lambda x, index: x.new_empty(*index.shape, *x.shape[1:]))
    return _with_gradient_of_positions(
        once, lambda x, index, grad: _put(torch.zeros_like(x), index, grad, False)
    )


@specimen((tensor(6, 3), tensor(values=[[0, 1, -1], [4, 2, 3]])))
def padded_positions():
    """Correct: positions of -1 stand for none."""

    @torch.library.custom_op("zoo::padded_positions", mutates_args=())
    def padded(x: Tensor, index: Tensor) -> Tensor:
        return (x[index.clamp(min=0)] * (index >= 0)[..., None]).contiguous()

    padded.register_fake(lambda x, index: x.new_empty(*index.shape, *x.shape[1:]))

    def gradient(x, index, grad):
        grad = grad * (index >= 0)[..., None]
        return _put(torch.zeros_like(x), index.clamp(min=0), grad, True)

    return _with_gradient_of_positions(padded, gradient)


def _columns_of_rows(name, accumulate):
    """The product of a sparse matrix of ones, by the columns of its rows, and a dense one."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, ptr: Tensor, col: Tensor) -> Tensor:
        if x.dim() != 2 or ptr.dim() != 1 or col.dim() != 1:
            raise ValueError("points, the offsets of rows and their columns, please")
        rows = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
        return x.new_zeros(len(ptr) - 1, x.shape[1]).index_add(0, rows, x[col])

    product.register_fake(lambda x, ptr, col: x.new_empty(ptr.shape[0] - 1, x.shape[1]))

    def setup(ctx, inputs, output):
        x, ptr, col = inputs
        ctx.points = x.shape[0]
        ctx.save_for_backward(ptr, col)

    def backward(ctx, grad):
        ptr, col = ctx.saved_tensors
        rows = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
        into = grad.new_zeros(ctx.points, grad.shape[1])
        return _put(into, col, grad[rows], accumulate), None, None

    product.register_autograd(backward, setup_context=setup)
    return product


COLUMNS = (tensor(4, 3), torch.tensor([0, 2, 3, 4]), torch.tensor([0, 3, 1, 2]))


@specimen(COLUMNS, variant_findings=MISMATCH, shown_by="col.in_two_parts", skips=NO_SIZE)
def keeps_the_last_row_of_a_column():
    """The backward overwrites where two rows have the same column."""
    return _columns_of_rows("keeps_the_last_row_of_a_column", accumulate=False)


@specimen(COLUMNS, twin_of="keeps_the_last_row_of_a_column", skips=NO_SIZE)
def adds_up_the_rows_of_a_column():
    """The backward adds up over rows."""
    return _columns_of_rows("adds_up_the_rows_of_a_column", accumulate=True)


def _pair_scores(name, accumulate, doc=""):
    """The product of a row of one table and a row of another, for each of a list of pairs."""

    def kernel(users: Tensor, items: Tensor, user: Tensor, item: Tensor) -> Tensor:
        if user.dim() != 1 or user.shape != item.shape or users.dim() != 2 or items.dim() != 2:
            raise ValueError("two tables, and two lists of positions, please")
        return (users[user] * items[item]).sum(-1)

    kernel.__doc__ = doc
    scores = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    scores.register_fake(
        lambda users, items, user, item: users.new_empty(
            user.shape, dtype=torch.promote_types(users.dtype, items.dtype)
        )
    )

    def backward(ctx, grad):
        users, items, user, item = ctx.saved_tensors
        of_users = _put(torch.zeros_like(users), user, grad[:, None] * items[item], accumulate)
        of_items = _put(torch.zeros_like(items), item, grad[:, None] * users[user], accumulate)
        return of_users, of_items, None, None

    scores.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return scores


PAIRED = (tensor(5, 3), tensor(7, 3), tensor(values=[0, 2, 1, 4]), tensor(values=[3, 0, 5, 6]))


@specimen(PAIRED, variant_findings=MISMATCH, shown_by="item.repeated")
def overwrites_what_a_user_has_twice():
    """The backward overwrites where a row is in two pairs, although each pair stands for itself."""
    return _pair_scores("overwrites_what_a_user_has_twice", accumulate=False)


@specimen(PAIRED, twin_of=("overwrites_what_a_user_has_twice", "pairs_of_distinct_users"))
def adds_up_what_a_user_has_twice():
    """The backward adds up."""
    return _pair_scores("adds_up_what_a_user_has_twice", accumulate=True)


@specimen(PAIRED, variant_notes=MISMATCH, shown_by="item.repeated")
def pairs_of_distinct_users():
    """The backward overwrites, and a docstring says that no row is in two pairs: a note."""
    return _pair_scores(
        "pairs_of_distinct_users",
        accumulate=False,
        doc="The product of rows in pairs. The numbers of `user`, and those of `item`, must be distinct.",
    )


CATEGORIES = (torch.tensor([[0], [2], [-1], [3]]), tensor(5, 2))


def _looked_up(name, accumulate):
    """Rows of a table; the formula adds up over the codes of a row, or keeps one of them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def looked_up(codes: Tensor, table: Tensor) -> Tensor:
        """Rows (N, D) of a table (R, D) for codes (N, 1); -1 gives zeros, and has no gradient."""
        check(codes, table)
        found = table[codes[:, 0].clamp(min=0)]
        return torch.where(codes < 0, torch.zeros_like(found), found)

    def check(codes, table):
        if (
            codes.dim() != 2
            or codes.shape[1] != 1
            or table.dim() != 2
            or codes.dtype != torch.int64
        ):
            raise ValueError("codes (N, 1) and a table (R, D), please")

    @looked_up.register_fake
    def _(codes, table):
        check(codes, table)
        return table.new_empty(codes.shape[0], table.shape[1])

    def backward(ctx, grad):
        (codes,) = ctx.saved_tensors
        known = codes[:, 0] >= 0
        into = grad.new_zeros(ctx.rows, grad.shape[1])
        return None, _put(into, codes[known, 0], grad[known], accumulate)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.rows = inputs[1].shape[0]

    looked_up.register_autograd(backward, setup_context=setup)
    return looked_up


# Which of two gradients is kept is torch's to choose, and Inductor's code may choose another one.
@specimen(CATEGORIES, variant_findings=MISMATCH, shown_by="codes.repeated", backend="aot_eager")
def keeps_the_gradient_of_one_code():
    """A code that comes twice gets one gradient. The docstring says only that -1 gets none."""
    return _looked_up("keeps_the_gradient_of_one_code", accumulate=False)


@specimen(CATEGORIES, twin_of="keeps_the_gradient_of_one_code")
def adds_up_the_gradients_of_codes():
    """All codes of a row count."""
    return _looked_up("adds_up_the_gradients_of_codes", accumulate=True)
