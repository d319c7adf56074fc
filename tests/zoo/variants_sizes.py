"""Ops that are right for the example, and wrong for large or 0-dim tensors, or for other values."""

import itertools
from typing import List

import numpy as np
import torch
from torch import Tensor

from pytest_customop import tensor

from .variants import MANY, MATRIX, SHAPE, STRIDE, VECTOR, specimen

GRADIENT = {"gradcheck.backward": "gradient-mismatch"}
GRID = 2**16  # what the kernels below call a grid


def _blocks(name, grids):
    """The exponentials, block by block; `grids(count)` is how many grids of elements are computed."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def blocks(x: Tensor) -> Tensor:
        flat = x.reshape(-1)
        out = torch.empty_like(flat)
        for grid in range(grids(flat.numel())):
            part = slice(grid * GRID, (grid + 1) * GRID)
            out[part] = flat[part].exp()
        return out.reshape(x.shape)

    blocks.register_fake(lambda x: x.new_empty(x.shape))
    return blocks


@specimen(
    (MATRIX,),
    variant_findings={"values.uninitialized": "uninitialized-output"},
    shown_by="large0",
)
def computes_one_grid():
    """Leaves what does not fit into one grid as it was allocated."""
    return _blocks("computes_one_grid", lambda count: 1)


@specimen((MATRIX,), twin_of="computes_one_grid")
def computes_every_grid():
    """Computes as many grids as there are."""
    return _blocks("computes_every_grid", lambda count: -(-count // GRID))


def _sines(name, limit):
    """The sines; `limit(count)` is how many elements of the gradient are computed."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sines(x: Tensor) -> Tensor:
        return x.sin()

    sines.register_fake(torch.empty_like)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradient = x.new_zeros(x.numel())
        part = slice(limit(x.numel()))
        gradient[part] = (grad * x.cos()).reshape(-1)[part]
        return gradient.reshape(x.shape)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    sines.register_autograd(backward, setup_context=setup)
    return sines


@specimen((MATRIX,), variant_findings=GRADIENT | MANY, shown_by="large0")
def backward_of_one_grid():
    """The gradient is 0 beyond the first grid of elements."""
    return _sines("backward_of_one_grid", lambda count: GRID)


@specimen((MATRIX,), twin_of="backward_of_one_grid")
def backward_of_every_grid():
    """The gradient is that of every element."""
    return _sines("backward_of_every_grid", lambda count: count)


def _softplus(name, slope):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def softplus(x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(x)

    softplus.register_fake(torch.empty_like)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    softplus.register_autograd(
        lambda ctx, grad: grad * slope(ctx.saved_tensors[0]), setup_context=setup
    )
    return softplus


@specimen(
    (MATRIX,),
    variant_findings={"gradcheck.backward": "gradient-not-finite"},
    shown_by="magnitudes",
)
def gradient_overflows():
    """The gradient is NaN where the output is finite: an exponential overflows in it."""
    return _softplus("gradient_overflows", lambda x: x.exp() / (1 + x.exp()))


@specimen((MATRIX,), twin_of="gradient_overflows")
def gradient_saturates():
    """The gradient is 1 where the exponential would overflow."""
    return _softplus("gradient_saturates", torch.sigmoid)


@specimen(
    (tensor(6, low=0, high=3), torch.tensor([0.0, 0.5, 1.5, 3.0]), torch.tensor([1.0, 3, 2, 5])),
    twin_of="gradient_overflows",
)
def interpolates_a_table():
    """Divides by the distance of two knots, which increase: equal ones do not fit."""

    @torch.library.custom_op("zoo::interpolates_a_table", mutates_args=())
    def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
        """The table (knots, values) at x, linear in between; outside, the value of the nearer end."""
        if x.dim() != 1 or knots.dim() != 1 or knots.shape != values.shape or len(knots) < 2:
            raise ValueError("numbers, and a table of two rows or more, please")
        if not x.dtype == knots.dtype == values.dtype:
            raise ValueError("one dtype, please")
        found = np.interp(*(each.detach().double().numpy() for each in (x, knots, values)))
        return torch.from_numpy(found).to(x.dtype)

    interpolate.register_fake(lambda x, knots, values: x.new_empty(x.shape))

    def backward(ctx, grad):
        x, knots, values = ctx.saved_tensors
        above = torch.searchsorted(knots, x.contiguous()).clamp(1, knots.shape[0] - 1)
        slope = (values.diff() / knots.diff())[above - 1]
        inside = (x > knots[0]) & (x < knots[-1])
        return grad * slope * inside, None, None

    interpolate.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return interpolate


def _centred(name, shaped):
    """Rows without their mean; `shaped(grad)` is the gradient as the backward returns it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def centred(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return (x - x.mean(1, keepdim=True)).contiguous()

    centred.register_fake(lambda x: x.new_empty(x.shape))
    centred.register_autograd(lambda ctx, grad: shaped(grad - grad.mean(1, keepdim=True)))
    return centred


@specimen(
    (MATRIX,),
    variant_findings={
        "backward.uninitialized": "backward-raises",
        "fake.backward": "backward-raises",
        "gradcheck.backward": "backward-raises",
        "relations.grad_modes": "backward-raises",
        "relations.permutation": "backward-raises",
        "relations.split": "backward-raises",
    },
    shown_by="one0",
)
def gradient_loses_a_dim():
    """The gradient of a single row is a vector, which autograd rejects."""
    return _centred("gradient_loses_a_dim", torch.squeeze)


@specimen((MATRIX,), twin_of="gradient_loses_a_dim")
def gradient_keeps_its_dims():
    """The gradient has the dims of the argument."""
    return _centred("gradient_keeps_its_dims", torch.clone)


def _picky(name, shaped):
    """Half of each element; `shaped(x)` is what the fake kernel says."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def picky(x: Tensor) -> Tensor:
        return x / 2

    picky.register_fake(shaped)
    return picky


@specimen((VECTOR,), variant_notes=SHAPE, shown_by="no_dims", variant_set="full")
def fake_has_a_dim():
    """The fake kernel returns a vector for a tensor without dims."""
    return _picky(
        "fake_has_a_dim", lambda x: torch.empty_like(x.reshape(-1) if x.dim() == 0 else x)
    )


@specimen((VECTOR,), twin_of="fake_has_a_dim")
def fake_may_have_no_dims():
    """Both kernels return what has no dims for what has none."""
    return _picky("fake_may_have_no_dims", torch.empty_like)


def _repeated(name, finished):
    """The rows divided by the first; `finished(row, x)` where all are equal."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def repeated(x: Tensor) -> Tensor:
        if x.dim() != 2 or 0 in x.shape:
            raise ValueError("a matrix that is not empty, please")
        if x.shape[0] > 1 and x.stride(0) > 0 and bool((x == x[:1]).all()):
            return finished(torch.ones_like(x[:1]), x)
        return (x / x[:1]).contiguous()

    repeated.register_fake(lambda x: x.new_empty(x.shape))
    return repeated


POSITIVE = tensor(4, 6, low=1, high=2)


@specimen((POSITIVE,), variant_findings=STRIDE, shown_by=("equal", "equal_rows"))
def expands_one_row():
    """Returns one row expanded where all rows are equal."""
    return _repeated("expands_one_row", lambda row, x: row.expand(x.shape))


@specimen((POSITIVE,), twin_of="expands_one_row")
def repeats_one_row():
    """Returns every row where all are equal."""
    return _repeated("repeats_one_row", lambda row, x: row.expand(x.shape).contiguous())


BOXES = torch.tensor([[0, 0, 4, 3], [2, 1, 8, 6], [1, 1, 2, 2]])


def _box_sums(name, none):
    """The sum of each box of an image; `none(image)` is what an image without boxes gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def box_sums(image: Tensor, boxes: Tensor) -> Tensor:
        if image.dim() != 3:
            raise ValueError("an image has channels, rows and columns")
        if boxes.numel() == 0:
            return none(image)
        return torch.stack([image[:, b:d, a:c].sum((1, 2)) for a, b, c, d in boxes.tolist()])

    box_sums.register_fake(lambda image, boxes: image.new_empty(boxes.shape[0], image.shape[0]))
    return box_sums


@specimen((torch.rand(2, 6, 9), BOXES), variant_findings=SHAPE, shown_by="boxes.empty0")
def no_boxes_have_no_dims():
    """Without boxes the result has one dim, and two otherwise. The example is made of real tensors."""
    return _box_sums("no_boxes_have_no_dims", lambda image: image.new_empty(0))


@specimen((torch.rand(2, 6, 9), BOXES), twin_of="no_boxes_have_no_dims")
def no_boxes_have_two_dims():
    """Without boxes the result has two dims as well."""
    return _box_sums("no_boxes_have_two_dims", lambda image: image.new_empty(0, len(image)))


def _sum_along(name, sizes):
    """The sum along a dim; `sizes(shape, dim)` is the fake kernel's."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def reduced(x: Tensor, dim: int) -> Tensor:
        return x.sum(dim)

    reduced.register_fake(lambda x, dim: x.new_empty(sizes(x.shape, dim)))
    return reduced


@specimen((torch.randn(3, 4, 5), 1), variant_findings=SHAPE, shown_by="dim.-1")
def fake_slices_from_minus_one():
    """The fake kernel slices behind the dim: for -1 that is everything."""
    return _sum_along(
        "fake_slices_from_minus_one", lambda shape, dim: shape[:dim] + shape[dim + 1 :]
    )


@specimen((torch.randn(3, 4, 5), 1), twin_of="fake_slices_from_minus_one")
def fake_counts_the_dim_from_the_start():
    """The fake kernel counts the dim from the start before it slices."""

    def without(shape, dim):
        dim %= len(shape)
        return shape[:dim] + shape[dim + 1 :]

    return _sum_along("fake_counts_the_dim_from_the_start", without)


OFFSETS = torch.tensor([0, 2, 3, 6])


def _segment_sums(name, empty):
    """The sum of each segment; `empty(x, start)` is that of one without elements."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(x: Tensor, offsets: Tensor) -> Tensor:
        pairs = itertools.pairwise(offsets.tolist())
        totals = [x[start:end].sum() if end > start else empty(x, start) for start, end in pairs]
        return torch.stack(totals) if totals else x.new_empty(0)

    sums.register_fake(lambda x, offsets: x.new_empty(offsets.shape[0] - 1))

    def backward(ctx, grad):
        (offsets,) = ctx.saved_tensors
        return grad.repeat_interleave(offsets.diff()), None

    sums.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1])
    )
    return sums


NO_OTHER_SIZE = {"fake.symbolic": "no-second-size"}


@specimen(
    (torch.rand(6), OFFSETS),
    variant_findings=GRADIENT,
    shown_by="offsets.empty_first",
    skips=NO_OTHER_SIZE,
)
def empty_segments_have_an_element():
    """A segment without elements gives the next one, as numpy's reduceat does."""
    return _segment_sums("empty_segments_have_an_element", lambda x, start: x[start:][:1].sum())


@specimen((torch.rand(6), OFFSETS), twin_of="empty_segments_have_an_element", skips=NO_OTHER_SIZE)
def empty_segments_are_zero():
    """A segment without elements gives 0."""
    return _segment_sums("empty_segments_are_zero", lambda x, start: x.new_zeros(()))


def _power(name, slope):
    """The square of numbers that may be complex; `slope(x)` is what the gradient is multiplied by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def power(x: Tensor) -> Tensor:
        if not (x.is_floating_point() or x.is_complex()):
            raise TypeError("real or complex numbers, please")
        return x * x

    power.register_fake(lambda x: torch.empty_like(x))
    power.register_autograd(
        lambda ctx, grad: grad * slope(*ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return power


@specimen((torch.randn(4, 3),), variant_findings=GRADIENT, shown_by="complex64")
def complex_gradient_without_conjugate():
    """The gradient of complex numbers lacks the conjugate."""
    return _power("complex_gradient_without_conjugate", lambda x: 2 * x)


@specimen((MATRIX,), twin_of="complex_gradient_without_conjugate")
def complex_gradient_with_conjugate():
    """The gradient has the conjugate, which is nothing for real numbers."""
    return _power("complex_gradient_with_conjugate", lambda x: 2 * x.conj())


def _distances(name, blocks):
    """The distance of each row to each; `blocks(rows)` is how many blocks of rows are computed."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distances(x: Tensor) -> Tensor:
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("a matrix, please")
        out = torch.empty(len(x), len(x), dtype=x.dtype, device=x.device)
        for block in range(blocks(len(x))):
            part = slice(block * 256, (block + 1) * 256)
            out[part] = (x[part, None] - x).abs().sum(-1)
        return out

    distances.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[0]))
    return distances


@specimen(
    (MATRIX,),
    variant_findings={"values.uninitialized": "uninitialized-output"},
    shown_by="hundreds0",
)
def compares_one_block_with_each():
    """Leaves the rows after the first 256 as they were allocated. Many thousand rows would be too many."""
    return _distances("compares_one_block_with_each", lambda rows: 1)


@specimen((MATRIX,), twin_of="compares_one_block_with_each")
def compares_every_block_with_each():
    """Computes as many blocks as there are."""
    return _distances("compares_every_block_with_each", lambda rows: -(-rows // 256))


def _running_sums(name, finish):
    """Sums from column to column, whose number is an argument; `finish(sums)` is returned.

    Both kernels want the number of columns that is given.
    """

    def checked(x, columns):
        if x.dim() != 2 or x.shape[1] != columns:
            raise ValueError("a matrix of that many columns, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def running_sums(x: Tensor, columns: int) -> Tensor:
        checked(x, columns)
        return finish(x.cumsum(1)).clone(memory_format=torch.contiguous_format)

    def fake(x: Tensor, columns: int) -> Tensor:
        checked(x, columns)
        return x.new_empty(x.shape)

    running_sums.register_fake(fake)
    return running_sums


@specimen((MATRIX, 6), variant_findings=SHAPE, shown_by="one1_with_numbers")
def drops_the_only_column():
    """Squeezes away the dim of the columns where there is one."""
    return _running_sums("drops_the_only_column", lambda sums: sums.squeeze(1))


@specimen((MATRIX, 6), twin_of="drops_the_only_column")
def keeps_the_only_column():
    """Keeps it."""
    return _running_sums("keeps_the_only_column", lambda sums: sums)


def _neighbour_max(name, empty):
    """The largest neighbour of each node of a graph in CSR; `empty(out)` fills nodes without any."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def largest(x: Tensor, rowptr: Tensor, col: Tensor) -> Tensor:
        if x.dim() != 1 or rowptr.dim() != 1 or int(rowptr[-1]) != len(col):
            raise ValueError("expected values of nodes, and neighbours in CSR")
        if len(col) and not 0 <= int(col.min()) <= int(col.max()) < len(x):
            raise ValueError("a neighbour is no node")
        out = empty(x.new_empty(len(rowptr) - 1))
        for row, (start, end) in enumerate(itertools.pairwise(rowptr.tolist())):
            if end > start:
                out[row] = x[col[start:end]].max()
        return out

    largest.register_fake(lambda x, rowptr, col: x.new_empty(rowptr.shape[0] - 1))
    return largest


GRAPH = (torch.randn(4), torch.tensor([0, 2, 3, 6]), torch.tensor([1, 3, 0, 2, 0, 3]))


@specimen(
    GRAPH,
    variant_findings={"values.uninitialized": "uninitialized-output"},
    shown_by="rowptr.empty_last",
    skips=NO_OTHER_SIZE,
)
def lonely_nodes_are_not_written():
    """A node without neighbours keeps what was in memory."""
    return _neighbour_max("lonely_nodes_are_not_written", lambda out: out)


@specimen(GRAPH, twin_of="lonely_nodes_are_not_written", skips=NO_OTHER_SIZE)
def lonely_nodes_are_zero():
    """A node without neighbours is 0."""
    return _neighbour_max("lonely_nodes_are_zero", lambda out: out.zero_())


def _differing_bits(name, dtype):
    """How many bits differ between each code and each other; `dtype` is that of the counters."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def distances(queries: Tensor, codes: Tensor) -> Tensor:
        if queries.dtype != torch.uint8 or codes.dtype != torch.uint8:
            raise TypeError("bytes, please")
        if queries.dim() != 2 or codes.dim() != 2 or queries.shape[1] != codes.shape[1]:
            raise ValueError("codes of one length, please")
        differing = queries[:, None] ^ codes
        bits = [((differing >> bit) & 1).sum(-1, dtype=dtype) for bit in range(8)]
        return torch.stack(bits).sum(0, dtype=dtype).to(torch.int32)

    distances.register_fake(
        lambda queries, codes: queries.new_empty(
            queries.shape[0], codes.shape[0], dtype=torch.int32
        )
    )
    return distances


CODES = (
    torch.tensor([[3, 250, 77, 9, 101, 64], [200, 4, 4, 31, 8, 243]], dtype=torch.uint8),
    torch.tensor([[0, 255, 18, 44, 36, 129], [7, 7, 219, 130, 90, 11]], dtype=torch.uint8),
)


@specimen(CODES, variant_findings={"relations.split": "parts-differ-from-whole"}, shown_by="long")
def counts_bits_in_eight_bits():
    """Counts them in one byte, which is enough for codes of 31 bytes."""
    return _differing_bits("counts_bits_in_eight_bits", torch.uint8)


@specimen(CODES, twin_of="counts_bits_in_eight_bits")
def counts_bits_in_many():
    """Counts them in 64 bits."""
    return _differing_bits("counts_bits_in_many", torch.int64)


def _sums_of_parts(name, end):
    """The sum of each part of the rows; `end(parts)` is how many are computed."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(x: Tensor, offsets: Tensor) -> Tensor:
        if offsets.dim() != 1 or x.dim() != 2 or not len(offsets):
            raise ValueError("offsets, and a matrix, please")
        ends = offsets.tolist()
        if ends[0] != 0 or ends[-1] != len(x) or ends != sorted(ends):
            raise ValueError("offsets from 0 to the number of rows, please")
        out = x.new_empty(len(ends) - 1, x.shape[1])
        for part in range(end(len(out))):
            out[part] = x[ends[part] : ends[part + 1]].sum(0)
        return out

    sums.register_fake(lambda x, offsets: x.new_empty(offsets.shape[0] - 1, x.shape[1]))
    return sums


PARTS = (tensor(8, 3), torch.tensor([0, 3, 3, 8]))


@specimen(
    PARTS,
    skips={"fake.symbolic": "no-second-size"},
    variant_findings={"values.uninitialized": "uninitialized-output"},
    shown_by="offsets.many_parts",
)
def sums_a_block_of_parts():
    """Computes 1024 parts and no more."""
    return _sums_of_parts("sums_a_block_of_parts", lambda parts: min(parts, 1024))


@specimen(PARTS, skips={"fake.symbolic": "no-second-size"}, twin_of="sums_a_block_of_parts")
def sums_every_part():
    """Computes all of them."""
    return _sums_of_parts("sums_every_part", lambda parts: parts)


def _means(name, counts):
    """The mean of each row; the backward divides by `counts(sizes)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(rows: List[Tensor]) -> Tensor:
        check(rows)
        return torch.stack([row.sum() / max(len(row), 1) for row in rows])

    def check(rows):
        if not rows or any(row.dim() != 1 or row.dtype != rows[0].dtype for row in rows):
            raise ValueError("rows of one dtype, please")

    @means.register_fake
    def _(rows):
        check(rows)
        return rows[0].new_empty(len(rows))

    def setup(ctx, inputs, output):
        ctx.sizes = [row.shape[0] for row in inputs[0]]

    def backward(ctx, grad):
        counts_of_rows = counts(ctx.sizes)
        return [
            (each / max(count, 1)).expand(size).clone()
            for each, count, size in zip(grad, counts_of_rows, ctx.sizes, strict=True)
        ]

    means.register_autograd(backward, setup_context=setup)
    return means


ROWS = [tensor(3), tensor(3)]


@specimen((ROWS,), variant_findings=GRADIENT, shown_by="last_tensors.4")
def divides_by_the_first_size():
    """The backward divides by the size of the first row for all of them."""
    return _means("divides_by_the_first_size", lambda sizes: [sizes[0]] * len(sizes))


@specimen((ROWS,), twin_of="divides_by_the_first_size")
def divides_by_each_size():
    """It divides by the size of each."""
    return _means("divides_by_each_size", lambda sizes: sizes)


def _block_diagonal(name, rows):
    """A matrix of blocks times a vector; the fake kernel gives `rows(blocks)` rows."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def product(blocks: List[Tensor], x: Tensor) -> Tensor:
        """blocks: each (r_i, c_i); x: (sum(c_i),). Returns (sum(r_i),)."""
        if x.dim() != 1 or any(block.dtype != x.dtype for block in blocks):
            raise ValueError("a vector of the dtype of all blocks, please")
        parts = x.split([block.shape[1] for block in blocks])
        return torch.cat([(block * part).sum(1) for block, part in zip(blocks, parts, strict=True)])

    @product.register_fake
    def _(blocks, x):
        return x.new_empty(rows(blocks))

    return product


BLOCKS = ([tensor(3, 3), tensor(3, 3)], tensor(6))


@specimen(
    BLOCKS,
    requires_grad=[False],
    variant_findings={"fake.forward": "fake-shape-mismatch"},
    shown_by="last_tensors.4.dim0",
)
def rows_of_the_first_block():
    """The fake kernel takes the rows of the first block for those of each."""
    return _block_diagonal(
        "rows_of_the_first_block", lambda blocks: len(blocks) * blocks[0].shape[0]
    )


@specimen(BLOCKS, requires_grad=[False], twin_of="rows_of_the_first_block")
def rows_of_all_blocks():
    """It adds up the rows of all blocks."""
    return _block_diagonal(
        "rows_of_all_blocks", lambda blocks: sum(block.shape[0] for block in blocks)
    )


def _framed(name, frames):
    """Frames of four numbers; `frames(size)` is how many the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def framed(x: Tensor) -> Tensor:
        """Frames (N, F, 4) of signals (N, T), the last one filled with zeros; an empty signal has one."""
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("signals (N, T), please")
        count = max(-(-x.shape[1] // 4), 1)
        out = x.new_zeros(len(x), 4 * count)
        out[:, : x.shape[1]] = x
        return out.reshape(len(x), count, 4)

    framed.register_fake(lambda x: x.new_empty(x.shape[0], frames(x.shape[1]), 4))
    return framed


@specimen((tensor(3, 9),), variant_findings=SHAPE, shown_by="empty1")
def fake_without_a_frame_of_nothing():
    """The fake kernel gives an empty signal no frame."""
    return _framed("fake_without_a_frame_of_nothing", lambda size: (size + 3) // 4)


@specimen((tensor(3, 9),), twin_of="fake_without_a_frame_of_nothing")
def fake_with_a_frame_of_nothing():
    """Both kernels give at least one."""
    return _framed("fake_with_a_frame_of_nothing", lambda size: torch.sym_max((size + 3) // 4, 1))


@specimen((torch.arange(24.0).sin().reshape(8, 3), torch.zeros(3)))
def leaves_statistics_of_a_single_row():
    """Correct: a running mean, which stays as it is for fewer than two rows."""

    @torch.library.custom_op("zoo::leaves_statistics_of_a_single_row", mutates_args=("mean",))
    def op(x: Tensor, mean: Tensor) -> Tensor:
        if x.dim() != 2 or mean.shape != x.shape[1:] or x.dtype != mean.dtype:
            raise ValueError("rows, and a mean of their columns, please")
        if len(x) > 1:
            mean.copy_(0.9 * mean + 0.1 * x.mean(0))
        return torch.tensor(len(x))

    op.register_fake(lambda x, mean: x.new_empty((), dtype=torch.int64))
    return op
