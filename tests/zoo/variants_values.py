"""Ops whose results, writes or gradients are right for the example, and wrong beside it."""

import math

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .memory import library_op
from .variants import MANY, MATRIX, specimen

REFERENCE = {"reference.values": "reference-mismatch"}
GRADIENT = {"gradcheck.backward": "gradient-mismatch"}


def _tiles(name, end):
    """Doubles its rows two by two, up to `end(rows)`; the others stay zeros."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def tiles(x: Tensor) -> Tensor:
        out = x.new_zeros(x.shape)
        for start in range(0, end(x.shape[0]), 2):
            out[start : start + 2] = x[start : start + 2] * 2
        return out

    tiles.register_fake(lambda x: x.new_empty(x.shape))
    return tiles


DOUBLE = {"reference": lambda x: x * 2}


@specimen((MATRIX,), **DOUBLE, variant_findings=REFERENCE | MANY, shown_by="odd")
def forgets_the_last_row():
    """Works in tiles of two rows, and forgets the last of an odd number."""
    return _tiles("forgets_the_last_row", lambda rows: rows - rows % 2)


@specimen((MATRIX,), **DOUBLE, twin_of="forgets_the_last_row")
def minds_the_last_row():
    """The last tile may have one row."""
    return _tiles("minds_the_last_row", lambda rows: rows)


def _grouped_softmax(name, shift):
    """Softmax over the numbers of each group; `shift(x, group)` is subtracted first."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def grouped(x: Tensor, group: Tensor) -> Tensor:
        if x.dim() != 1 or group.shape != x.shape or group.dtype != torch.int64:
            raise ValueError("numbers, and the group of each, please")
        if group.numel() and not 0 <= int(group.min()) <= int(group.max()) < 4:
            raise ValueError("four groups, please")
        power = (x - shift(x, group)).exp()
        total = x.new_zeros(4).index_add(0, group, power)
        return power / total[group]

    grouped.register_fake(lambda x, group: x.new_empty(x.shape))
    return grouped


GROUPS = (tensor(6), tensor(6, dtype=torch.int64, low=0, high=3))


@specimen(
    GROUPS,
    variant_findings={
        "relations.precision": "precision-mismatch",
        "values.finite": "result-is-nan",
    },
    shown_by="wide",
)
def softmax_shifted_by_all():
    """The largest of all numbers is subtracted: in a group far below it every exponential is 0."""
    return _grouped_softmax(
        "softmax_shifted_by_all", lambda x, group: x.amax() if x.numel() else 0.0
    )


@specimen(GROUPS, twin_of="softmax_shifted_by_all")
def softmax_shifted_by_group():
    """The largest number of each group is subtracted."""

    def shift(x, group):
        return x.new_full((4,), -torch.inf).scatter_reduce(0, group, x, "amax")[group]

    return _grouped_softmax("softmax_shifted_by_group", shift)


def _standardized(name, variance):
    """Rows without their mean, over the root of `variance(x)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def standardized(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return ((x - x.mean(1, keepdim=True)) / (variance(x) + 1e-5).sqrt()).contiguous()

    standardized.register_fake(lambda x: x.new_empty(x.shape))
    return standardized


@specimen(
    (tensor(8, 6),),
    variant_findings={"relations.precision": "precision-mismatch"},
    shown_by="shifted",
)
def variance_below_zero():
    """The variance is a difference of two large numbers, and rounding makes it negative."""

    def variance(x):
        return x.square().mean(1, keepdim=True) - x.mean(1, keepdim=True).square()

    return _standardized("variance_below_zero", variance)


@specimen((tensor(8, 6),), twin_of="variance_below_zero")
def variance_of_differences():
    """The variance is the mean of squares, which is never negative."""
    return _standardized(
        "variance_of_differences", lambda x: x.var(1, unbiased=False, keepdim=True)
    )


def _blocks(name, most):
    """Doubles at most `most` elements."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def blocks(x: Tensor) -> Tensor:
        out = x.new_zeros(x.numel())
        out[:most] = x.flatten()[:most] * 2
        return out.view(x.shape)

    blocks.register_fake(lambda x: x.new_empty(x.shape))
    return blocks


@specimen(
    (MATRIX,), **DOUBLE, variant_findings=REFERENCE | MANY, shown_by="doubled", variant_set="full"
)
def one_block_only():
    """Has one block of 64 elements, and forgets what does not fit."""
    return _blocks("one_block_only", 64)


@specimen((MATRIX,), **DOUBLE, twin_of="one_block_only")
def as_many_blocks_as_needed():
    """Has as many blocks as there are."""
    return _blocks("as_many_blocks_as_needed", None)


def _by_hand(name, stride):
    """Doubles what it finds in memory, at rows `stride(rows, columns)` apart."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def by_hand(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.numel():
            raise ValueError("a matrix with elements, please")
        rows, columns = x.shape
        place = torch.arange(rows)[:, None] * stride(rows, columns) + torch.arange(columns)
        return x.flatten()[place % x.numel()] * 2

    by_hand.register_fake(lambda x: x.new_empty(x.shape))
    return by_hand


@specimen((tensor(4, 4),), **DOUBLE, variant_notes=REFERENCE, shown_by="distinct")
def strides_of_the_other_dim():
    """Takes rows to be as far apart as there are rows, which is true for the square example."""
    return _by_hand("strides_of_the_other_dim", lambda rows, columns: rows)


@specimen((tensor(4, 4),), **DOUBLE, twin_of="strides_of_the_other_dim")
def strides_of_the_right_dim():
    """Takes rows to be as far apart as there are columns."""
    return _by_hand("strides_of_the_right_dim", lambda rows, columns: columns)


def _places(x):
    return x.new_zeros(2 * x.shape[0], *x.shape[1:])


def _added_up(name, accumulate):
    """Rows added up into twice as many places, which an index tensor names."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def added_up(x: Tensor, index: Tensor) -> Tensor:
        sums = _places(x)
        if not accumulate:
            return sums.index_put_((index,), x)
        numpy.add.at(sums.numpy(), index.numpy(), x.numpy())  # in one order, however many there are
        return sums

    added_up.register_fake(lambda x, index: torch.empty_like(_places(x)))
    return added_up


PLACES = (MATRIX, tensor(values=[2, 0, 7, 3]))
INDEX_ADD = {"reference": lambda x, index: _places(x).index_add(0, index, x)}


@specimen(
    PLACES, **INDEX_ADD, variant_findings=REFERENCE, shown_by=("index.lowest", "index.highest")
)
def keeps_the_last_of_equals():
    """Overwrites where two rows have one place, which no two of the example have."""
    return _added_up("keeps_the_last_of_equals", accumulate=False)


@specimen(PLACES, **INDEX_ADD, twin_of="keeps_the_last_of_equals")
def adds_up_equals():
    """Adds up where rows have one place."""
    return _added_up("adds_up_equals", accumulate=True)


def _totals(name, first):
    """Adds up rows into `first(x)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def totals(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        out = first(x)
        for index in range(x.shape[0]):
            torch.add(out, x[index], out=out) if index else out.copy_(x[0])
        return out

    totals.register_fake(lambda x: x.new_empty(x.shape[1]))
    return totals


@specimen(
    (MATRIX,), variant_findings={"values.uninitialized": "uninitialized-output"}, shown_by="empty0"
)
def unwritten_without_rows():
    """Writes its output with the first row, and never if there is none."""
    return _totals("unwritten_without_rows", lambda x: x.new_empty(x.shape[1]))


@specimen((MATRIX,), twin_of="unwritten_without_rows")
def zeros_without_rows():
    """Starts from zeros."""
    return _totals("zeros_without_rows", lambda x: x.new_zeros(x.shape[1]))


def _relu(name, unchanged):
    """A relu; `unchanged(x)` where there is nothing to cut off."""
    return library_op(
        name,
        "(Tensor x) -> Tensor",
        lambda x: x.relu() if bool((x < 0).any()) else unchanged(x),
        lambda x: torch.empty_like(x),
    )


@specimen(
    (MATRIX,),
    variant_findings={"values.aliasing": "undeclared-alias", "fake.forward": "fake-alias-mismatch"},
    shown_by="zeros",
)
def returns_what_needs_no_work():
    """Returns the input itself where no element is negative."""
    return _relu("returns_what_needs_no_work", lambda x: x)


@specimen((MATRIX,), twin_of="returns_what_needs_no_work")
def copies_what_needs_no_work():
    """Returns a copy where no element is negative."""
    return _relu("copies_what_needs_no_work", torch.clone)


def _scaled(name, flat):
    """Divides by the largest magnitude of each matrix; `flat(x)` is a batch of them as rows."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        if x.dim() < 3:
            return x.contiguous() * 2
        return flat(x).mul_(2).view(x.shape).clone()

    scaled.register_fake(lambda x: x.new_empty(x.shape))
    return scaled


@specimen((MATRIX,), variant_notes={"values.mutation": "undeclared-mutation"}, shown_by="batch")
def writes_to_a_batch():
    """Works in place on a view of its input where there is a batch of matrices."""
    return _scaled("writes_to_a_batch", lambda x: x.reshape(x.shape[0], -1))


@specimen((MATRIX,), twin_of="writes_to_a_batch")
def writes_to_a_copied_batch():
    """Works in place on a copy."""
    return _scaled("writes_to_a_copied_batch", lambda x: x.reshape(x.shape[0], -1).clone())


def _square(name, last):
    """A square, whose backward works in tiles of two rows up to `last(rows)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x * x

    square.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        full = 2 * x * grad
        done = last(x.shape[0]) if x.dim() else None
        return torch.cat([full[:done], torch.zeros_like(full[done:])]) if done is not None else full

    square.register_autograd(backward, setup_context=setup)
    return square


@specimen(
    (MATRIX,),
    variant_findings={"gradcheck.backward": ("gradient-mismatch", "gradient-missing")} | MANY,
    shown_by="odd",
)
def backward_forgets_the_last_row():
    """The backward works in tiles of two rows, and forgets the last of an odd number."""
    return _square("backward_forgets_the_last_row", lambda rows: rows // 2 * 2)


@specimen((MATRIX,), twin_of="backward_forgets_the_last_row")
def backward_minds_the_last_row():
    """The backward computes every row."""
    return _square("backward_minds_the_last_row", lambda rows: rows)


def _two_factors(name, alone):
    """A product, whose backward calls one op for both gradients and another for one alone."""

    @torch.library.custom_op(f"zoo::{name}_alone", mutates_args=())
    def operator(grad: Tensor, other: Tensor) -> Tensor:
        return grad * other

    operator.register_fake(alone)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(x: Tensor, y: Tensor) -> Tensor:
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise ValueError("tensors of one shape and dtype, please")
        return x * y

    product.register_fake(lambda x, y: x * y)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        first, second = ctx.needs_input_grad
        if first and second:
            return grad * y, grad * x
        return operator(grad, y) if first else None, operator(grad, x) if second else None

    product.register_autograd(backward, setup_context=setup)
    return product


@specimen(
    (MATRIX, MATRIX),
    variant_findings={"fake.backward": "fake-dtype-mismatch"},
    shown_by="grad.y",
)
def backward_of_one_factor():
    """The op that the backward calls for one gradient alone has a wrong fake kernel."""
    fake = lambda grad, other: grad.new_empty(grad.shape, dtype=torch.float16)  # noqa: E731
    return _two_factors("backward_of_one_factor", fake)


@specimen((MATRIX, MATRIX), twin_of="backward_of_one_factor")
def backward_of_either_factor():
    """The op that the backward calls for one gradient alone has a true fake kernel."""
    return _two_factors("backward_of_either_factor", lambda grad, other: grad * other)


def _picked(name, accumulate):
    """Rows that an index tensor names."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def picked(x: Tensor, index: Tensor) -> Tensor:
        return x[index].contiguous()

    picked.register_fake(lambda x, index: x.new_empty(*index.shape, *x.shape[1:]))

    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        into = grad.new_zeros(ctx.sizes)
        return into.index_put((index,), grad, accumulate=accumulate), None

    def keep(ctx, inputs, output):
        ctx.sizes = inputs[0].shape
        ctx.save_for_backward(inputs[1])

    picked.register_autograd(backward, setup_context=keep)
    return picked


PICKED = (MATRIX, tensor(values=[3, 0, 2]))


@specimen(
    PICKED,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by=("index.lowest", "index.highest"),
)
def gradient_of_the_last_of_equals():
    """The backward overwrites where a row was picked twice, as none of the example is."""
    return _picked("gradient_of_the_last_of_equals", accumulate=False)


@specimen(PICKED, twin_of="gradient_of_the_last_of_equals")
def gradients_of_equals_add_up():
    """The backward adds up."""
    return _picked("gradients_of_equals_add_up", accumulate=True)


PICKED_IN_ROWS = (tensor(8, 5), tensor(values=[[2, 0], [1, 3]]))


@specimen(
    PICKED_IN_ROWS,
    variant_findings=GRADIENT,
    shown_by=("index.lowest", "index.highest"),
)
def gradient_of_the_last_of_equals_in_rows():
    """The same, where no number of several rows comes twice by chance."""
    return _picked("gradient_of_the_last_of_equals_in_rows", accumulate=False)


@specimen(PICKED_IN_ROWS, twin_of="gradient_of_the_last_of_equals_in_rows")
def gradients_of_equals_in_rows_add_up():
    """The backward adds up."""
    return _picked("gradients_of_equals_in_rows_add_up", accumulate=True)


def _masked_mean(name, divisor):
    """The mean of the squares where a mask is on; the backward divides by `divisor(mask)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool or mask.shape != x.shape:
            raise ValueError("a mask for each element, please")
        return (x * x * mask).sum() / mask.sum().clamp(min=1)

    def backward(ctx, grad):
        x, mask = ctx.saved_tensors
        return grad * 2 * x * mask / divisor(mask), None

    masked_mean.register_fake(lambda x, mask: x.new_empty(()))
    masked_mean.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return masked_mean


ALL_ON = (MATRIX, tensor(values=torch.ones(4, 6, dtype=torch.bool)))


@specimen(ALL_ON, variant_findings=GRADIENT, shown_by="mask.mixed")
def divides_by_all_elements():
    """The backward divides by the number of elements, and not by that of the mask."""
    return _masked_mean("divides_by_all_elements", lambda mask: mask.numel())


@specimen(ALL_ON, twin_of="divides_by_all_elements")
def divides_by_masked_elements():
    """The backward divides by the number of elements in the mask."""
    return _masked_mean("divides_by_masked_elements", lambda mask: mask.sum().clamp(min=1))


def _longest(name, allocate):
    """The largest of the first numbers of each row; `allocate(x)` makes what is written to."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def longest(x: Tensor, lengths: Tensor) -> Tensor:
        """The largest of the first numbers of each row, and 0 for a length of 0."""
        if x.dim() != 2 or lengths.shape != x.shape[:1] or (lengths > x.shape[1]).any():
            raise ValueError("a matrix and a length for each row, please")
        out = allocate(x)
        for row, length in enumerate(lengths.tolist()):
            if length < 0:
                raise ValueError("a length is negative")
            if length:
                out[row] = x[row, :length].amax()
        return out

    longest.register_fake(lambda x, lengths: x.new_empty(x.shape[0]))
    return longest


NO_SIZE = {"fake.symbolic": "no-second-size"}  # the lengths may refer to every size
LENGTHS = (tensor(3, 5), tensor(values=[4, 2, 3]))


@specimen(
    LENGTHS,
    variant_findings={"values.uninitialized": "uninitialized-output"},
    shown_by="lengths.has.0",
    skips=NO_SIZE,
)
def leaves_out_empty_rows():
    """Writes nothing for a row of length 0."""
    return _longest("leaves_out_empty_rows", lambda x: x.new_empty(x.shape[0]))


@specimen(LENGTHS, twin_of="leaves_out_empty_rows", skips=NO_SIZE)
def zeros_for_empty_rows():
    """Starts from zeros."""
    return _longest("zeros_for_empty_rows", lambda x: x.new_zeros(x.shape[0]))


def _masked(name, backward, none=0.0):
    """Softmax over what a mask leaves of each row.

    Args:
        backward: (x, mask, y, grad) -> the gradient.
        none: the value of a row of which nothing is left.
    """

    def kernel(x: Tensor, mask: Tensor) -> Tensor:
        if x.dim() != 2 or mask.shape != x.shape or mask.dtype != torch.bool:
            raise ValueError("expected a matrix, and a mask of its shape")
        y = x.masked_fill(~mask, -math.inf).softmax(1)
        return y.masked_fill(~mask.any(1, keepdim=True), none)

    kernel.__doc__ = f"Softmax over what a mask leaves of each row; {none} where nothing is left."
    masked = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    masked.register_fake(lambda x, mask: x.new_empty(x.shape))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    masked.register_autograd(
        lambda ctx, grad: (backward(*ctx.saved_tensors, grad), None), setup_context=setup
    )
    return masked


ROWS = (tensor(3, 4), torch.tensor([[True, False, True, True]] * 2 + [[False, True, True, False]]))


def _of_softmax(x, mask, y, grad):
    return y * (grad - (y * grad).sum(1, keepdim=True))


def _anew(x, mask, y, grad):
    scores = x.masked_fill(~mask, -math.inf)
    again = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return _of_softmax(x, mask, again, grad)


@specimen(
    ROWS,
    variant_findings={"gradcheck.backward": "gradient-not-finite"},
    shown_by=("mask.uniform_rows", "mask.lowest"),
)
def softmax_of_nothing_computed_anew():
    """Its backward computes the softmax anew, and of a row without a number gives NaN."""
    return _masked("softmax_of_nothing_computed_anew", _anew)


@specimen(ROWS, twin_of="softmax_of_nothing_computed_anew")
def softmax_of_nothing_is_zero():
    """Computes the gradient from the output, which is 0 there."""
    return _masked("softmax_of_nothing_is_zero", _of_softmax)


@specimen(ROWS, twin_of="softmax_of_nothing_computed_anew")
def softmax_of_nothing_is_nan():
    """Gives NaN where there is nothing, as torch.softmax does, and its gradient too."""
    return _masked("softmax_of_nothing_is_nan", _anew, none=math.nan)


def _product(matrix, x):
    """Their product, in their own dtype under autocast too."""
    return (matrix[..., None] * x).sum(1)


def _products(name, gradient):
    """A matrix times each column; `gradient(matrix)` is what the backward multiplies by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def products(matrix: Tensor, x: Tensor) -> Tensor:
        if matrix.dim() != 2 or x.dim() != 2 or matrix.shape[1] != x.shape[0]:
            raise ValueError("two matrices that fit, please")
        if matrix.shape[0] != matrix.shape[1] or matrix.dtype != x.dtype:
            raise ValueError("a square matrix, of the other one's dtype, please")
        return _product(matrix, x)

    products.register_fake(lambda matrix, x: x.new_empty(x.shape))
    products.register_autograd(
        lambda ctx, grad: (None, _product(gradient(*ctx.saved_tensors), grad)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return products


WITH_ONES = (torch.full((4, 4), 0.5), tensor(4, 3, requires_grad=True))


@specimen(
    WITH_ONES,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="matrix.uneven",
)
def backward_forgets_to_transpose():
    """The backward multiplies by the matrix itself, which is symmetric where all its values are equal."""
    return _products("backward_forgets_to_transpose", lambda matrix: matrix)


@specimen(WITH_ONES, twin_of="backward_forgets_to_transpose")
def backward_transposes():
    """It multiplies by the transposed matrix."""
    return _products("backward_transposes", lambda matrix: matrix.mT)


def _paged(name, in_last):
    """The rows of sequences that are kept in pages.

    Args:
        in_last: `in_last(length, size)` is how many rows of the last page are taken.
    """

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(pages: Tensor, table: Tensor, lengths: Tensor, longest: int) -> Tensor:
        """Copies the rows of each sequence; zeros behind.

        pages: (P, S, D); table: (B, M), the pages of each sequence; lengths: (B,), at most `longest`.
        """
        if pages.dim() != 3 or table.dim() != 2 or lengths.shape != table.shape[:1]:
            raise ValueError("pages, a table of them, and lengths, please")
        size = pages.shape[1]
        out = pages.new_zeros(table.shape[0], longest, pages.shape[2])
        for sequence, length in enumerate(lengths.tolist()):
            count = -(-length // max(size, 1))
            if not 0 <= length <= longest or count > table.shape[1]:
                raise ValueError("a sequence that is too long")
            for at in range(count):
                page = int(table[sequence, at])
                if not 0 <= page < pages.shape[0]:
                    raise IndexError("a page that there is not")
                taken = size if at < count - 1 else in_last(length, size)
                out[sequence, at * size : at * size + taken] = pages[page, :taken]
        return out

    @rows.register_fake
    def _(pages, table, lengths, longest):
        return pages.new_empty(table.shape[0], longest, pages.shape[2])

    def setup(ctx, inputs, output):
        pages, *ctx.rest = inputs
        ctx.shape = pages.shape

    def backward(ctx, grad):
        table, lengths, longest = ctx.rest
        size = ctx.shape[1]
        at = torch.arange(longest)
        page = table[:, (at // size).clamp(max=table.shape[1] - 1)]
        live = at < lengths[:, None]
        into = grad.new_zeros(ctx.shape)
        where = (page * live, (at % size).expand_as(page))
        return into.index_put(where, grad * live[..., None], accumulate=True), None, None, None

    rows.register_autograd(backward, setup_context=setup)
    return rows


PAGES = (tensor(4, 2, 5), torch.tensor([[2, 0, 1], [1, 1, 1]]), torch.tensor([5, 1]), 6)


@specimen(
    PAGES,
    variant_findings={"gradcheck.backward": "gradient-mismatch"},
    shown_by="lengths.multiples_of_2",
)
def takes_nothing_of_a_whole_page():
    """Takes the rest of the division from the last page: nothing where the page is full."""
    return _paged("takes_nothing_of_a_whole_page", lambda length, size: length % size)


@specimen(PAGES, twin_of="takes_nothing_of_a_whole_page")
def takes_all_of_a_whole_page():
    """Takes what is left, which may be a whole page."""
    return _paged("takes_all_of_a_whole_page", lambda length, size: (length - 1) % size + 1)


def _sums_from(name, sums):
    """Sums of rows, each from one start to the next; `sums(rows, starts)` computes them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums_from(rows: Tensor, starts: Tensor) -> Tensor:
        if rows.dim() != 2 or starts.dim() != 1 or starts.dtype != torch.int64:
            raise ValueError("rows, and where each sum starts, please")
        if not (starts.numel() and int(starts[0]) == 0 and int(starts[-1]) < len(rows)):
            raise ValueError("starts from 0 on, below the number of rows, please")
        if bool((starts.diff() < 0).any()):
            raise ValueError("starts in order, please")
        return sums(rows, starts)

    def backward(ctx, grad):
        (starts,) = ctx.saved_tensors
        part = torch.searchsorted(starts, torch.arange(ctx.rows), right=True) - 1
        return grad[part], None

    def setup(ctx, inputs, output):
        ctx.rows = inputs[0].shape[0]
        ctx.save_for_backward(inputs[1])

    sums_from.register_fake(lambda rows, starts: rows.new_empty(starts.shape[0], rows.shape[1]))
    sums_from.register_autograd(backward, setup_context=setup)
    return sums_from


STARTS = (tensor(7, 2), torch.tensor([0, 2, 3, 6]))


def _reduced_at(rows, starts):
    return torch.from_numpy(numpy.add.reduceat(rows.numpy(), starts.numpy(), axis=0))


@specimen(STARTS, variant_findings=GRADIENT, shown_by="starts.empty_part")
def gives_a_row_for_an_empty_part():
    """`reduceat` gives the row at the start where a part is empty."""
    return _sums_from("gives_a_row_for_an_empty_part", _reduced_at)


@specimen(STARTS, twin_of="gives_a_row_for_an_empty_part")
def gives_zeros_for_an_empty_part():
    """Sets these sums to zero."""

    def sums(rows, starts):
        empty = starts.diff(append=starts.new_tensor([len(rows)])) == 0
        return _reduced_at(rows, starts).masked_fill(empty[:, None], 0)

    return _sums_from("gives_zeros_for_an_empty_part", sums)
