"""Ops whose docstrings say of the entries of a batch that they are independent, unbatched, or padded."""

import functools
from typing import Optional

import numpy
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


PADDING = {"relations.padding": "padding-has-influence"}


def _last_steps(
    name, last, said="[batch], from 1 on. What is behind the end of a sequence is ignored."
):
    """The largest numbers and those of the last step; `last(length, steps)` says which one it is."""

    def check(x, lengths):
        if x.dim() != 3 or 0 in x.shape or lengths.shape != x.shape[:1]:
            raise ValueError("expected [batch, steps, n], and a length for each")
        if lengths.dtype != torch.int64 or not x.is_floating_point():
            raise TypeError("floating-point numbers, and lengths as int64, please")

    def kernel(x: Tensor, lengths: Tensor) -> Tensor:
        check(x, lengths)
        if int(lengths.min()) < 1 or int(lengths.max()) > x.shape[1]:
            raise ValueError("lengths are from 1 to the number of steps")
        rows = [
            row[:length].amax(0) + row[last(length, len(row)) - 1]
            for row, length in zip(x, lengths.tolist(), strict=True)
        ]
        return torch.stack(rows)

    kernel.__doc__ = f"""The largest numbers of the steps plus those of the last step.

    x: [batch, steps, n]
    lengths: {said}
    """
    summed = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @summed.register_fake
    def _(x, lengths):
        check(x, lengths)
        return x.new_empty(x.shape[0], x.shape[2])

    return summed


SEQUENCES = (tensor(2, 5, 3), torch.tensor([5, 5]))


@aot(SEQUENCES, expected=PADDING)
def last_step_of_the_batch():
    """Adds the last step of the batch, which may be padding. The sample has none."""
    return _last_steps("last_step_of_the_batch", lambda length, steps: steps)


@aot(SEQUENCES, expected=PADDING)
def last_step_that_is_not_valid():
    """The same, whose docstring says that the lengths count what is valid."""
    return _last_steps(
        "last_step_that_is_not_valid", lambda length, steps: steps, "[batch], number of valid steps"
    )


@aot(SEQUENCES, twin_of=("last_step_of_the_batch", "last_step_that_is_not_valid"))
def last_step_of_the_sequence():
    """Adds the last step of each sequence."""
    return _last_steps("last_step_of_the_sequence", lambda length, steps: length)


@aot((tensor(2, 5, 3), torch.tensor([5, 3])), twin_of="last_step_of_the_batch")
def counts_what_is_padded():
    """Correct: the lengths are counted, and no result depends on what is behind them."""

    @torch.library.custom_op("zoo::counts_what_is_padded", mutates_args=())
    def counted(x: Tensor, lengths: Tensor) -> Tensor:
        """What is behind the length of a sequence is ignored: how many steps it has, with all of them.

        x: [batch, steps, n]
        lengths: [batch], int64
        """
        if x.dim() != 3 or lengths.shape != x.shape[:1] or lengths.dtype != torch.int64:
            raise ValueError("expected [batch, steps, n], and a length for each")
        return torch.stack([lengths, torch.full_like(lengths, 7)], 1)

    @counted.register_fake
    def _(x, lengths):
        if x.dim() != 3 or lengths.shape != x.shape[:1] or lengths.dtype != torch.int64:
            raise ValueError("expected [batch, steps, n], and a length for each")
        return lengths.new_empty(lengths.shape[0], 2)

    return counted


def _changes_of_label(name, before):
    """How often the best label changes, time first; `before(best)` are the labels one step before."""

    def check(scores, lengths):
        if scores.dim() != 3 or lengths.dim() != 1 or lengths.shape[0] != scores.shape[1]:
            raise ValueError("expected [steps, batch, labels], and a length for each")
        if lengths.dtype != torch.int64 or not scores.is_floating_point():
            raise TypeError("floating-point scores, and lengths as int64, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def changes(scores: Tensor, lengths: Tensor) -> Tensor:
        """How often the best label changes in each sequence, which counts as a change at its first step.

        scores: [steps, batch, labels]
        lengths: [batch]; sequence b has `lengths[b]` valid steps
        """
        check(scores, lengths)
        if 0 in scores.shape:
            raise ValueError("nothing to count")
        best = scores.argmax(-1)
        valid = torch.arange(len(best))[:, None] < lengths
        return (valid & (best != before(best))).sum(0)

    @changes.register_fake
    def _(scores, lengths):
        check(scores, lengths)
        return lengths.new_empty(lengths.shape[0])

    return changes


# The best labels of neighbouring steps, and of the first and the last one, differ in each sequence.
BEST = torch.tensor([[0, 1], [1, 2], [2, 0], [0, 1], [3, 3]])
SCORES = (torch.eye(4)[BEST], torch.tensor([4, 5]))


@aot(SCORES, expected=PADDING)
def compares_the_first_step_with_the_last():
    """`roll` puts the last step of the batch before the first one."""
    return _changes_of_label("compares_the_first_step_with_the_last", lambda best: best.roll(1, 0))


@aot(SCORES, twin_of="compares_the_first_step_with_the_last")
def compares_the_first_step_with_nothing():
    """A label that does not exist is before the first one."""
    return _changes_of_label(
        "compares_the_first_step_with_nothing",
        lambda best: torch.cat([torch.full_like(best[:1], -1), best[:-1]]),
    )


def _kept_mean(name, kept):
    """The mean of the numbers that a mask does not leave out; `kept(mask)` is where it does not."""

    def check(x, mask):
        if x.dim() != 1 or not x.is_floating_point() or mask.shape != x.shape:
            raise ValueError("a row, and a mask of it, please")
        if mask.dtype not in (torch.bool, torch.uint8):
            raise TypeError("a mask is bool or uint8")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def mean(x: Tensor, mask: Tensor) -> Tensor:
        """The mean of some numbers.

        x: (N,)
        mask: (N,), bool or uint8: not 0 where a number is left out
        """
        check(x, mask)
        found = kept(mask).to(x.dtype)
        return (x * (found != 0)).sum() / (found != 0).sum().clamp(min=1)

    @mean.register_fake
    def _(x, mask):
        check(x, mask)
        return x.new_empty(())

    return mean


LEFT_OUT = (tensor(5), torch.tensor([False, True, True, False, False]))


@aot(LEFT_OUT, expected={"relations.mask_dtype": "mask-dtype-matters"})
def inverts_the_bits_of_a_mask():
    """Inverts the bits of uint8, none of which becomes 0."""
    return _kept_mean("inverts_the_bits_of_a_mask", lambda mask: ~mask)


@aot(LEFT_OUT, twin_of="inverts_the_bits_of_a_mask")
def compares_a_mask_with_zero():
    """Asks where the mask is 0."""
    return _kept_mean("compares_a_mask_with_zero", lambda mask: mask == 0)


SLOTS = (torch.randn(3, 2), torch.zeros(3, 4, 2), torch.tensor([5, 0, 7]))


def _stored(name, store):
    """Writes rows to a cache in blocks; `store(rows, values, slots)` does, to the cache as rows."""

    def check(values, cache, slots):
        if cache.dim() != 3 or values.dim() != 2 or slots.shape != values.shape[:1]:
            raise ValueError("a cache in blocks, rows, and a slot for each, please")
        if values.shape[1] != cache.shape[2] or values.dtype != cache.dtype:
            raise ValueError("rows like those of the cache, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args={"cache"})
    def stored(values: Tensor, cache: Tensor, slots: Tensor) -> None:
        """Store the rows of a step.

        values: (tokens, n)
        cache: (blocks, block_size, n)
        slots: (tokens,), int64: block * block_size + offset. Padding has slot -1.
        """
        check(values, cache, slots)
        if slots.dtype != torch.int64 or not cache.is_contiguous():
            raise TypeError("slots in int64, and a contiguous cache, please")
        rows = cache.view(-1, cache.shape[2])
        if len(slots) and not -1 <= slots.min() <= slots.max() < len(rows):
            raise IndexError(f"a slot is not in {len(rows)} slots")
        store(rows, values, slots)

    stored.register_fake(check)
    return stored


@aot(SLOTS, expected={"relations.padding_positions": "padding-taken-for-last"})
def stores_padding_in_the_last_slot():
    """Takes -1 for an index, which counts from the end."""

    def store(rows, values, slots):
        for slot, value in zip(slots.tolist(), values, strict=True):
            rows[slot] = value

    return _stored("stores_padding_in_the_last_slot", store)


@aot(SLOTS, twin_of="stores_padding_in_the_last_slot")
def leaves_out_padding():
    """Leaves out what is negative."""

    def store(rows, values, slots):
        for slot, value in zip(slots.tolist(), values, strict=True):
            if slot >= 0:
                rows[slot] = value

    return _stored("leaves_out_padding", store)


@aot((tensor(5, 3), torch.tensor([4, 0, 2])), twin_of="stores_padding_in_the_last_slot")
def rows_of_which_the_last_is_padding():
    """Correct: -1 stands for no row, and gives zeros."""

    @torch.library.custom_op("zoo::rows_of_which_the_last_is_padding", mutates_args=())
    def rows(table: Tensor, index: Tensor) -> Tensor:
        """Rows of a table.

        table: (N, n)
        index: (K,), int64, 0 to N - 1; -1 for none, which gives zeros
        """
        if table.dim() != 2 or index.dim() != 1 or index.dtype != torch.int64:
            raise ValueError("a table, and positions in int64, please")
        if len(index) and not -1 <= index.min() <= index.max() < len(table):
            raise IndexError(f"a position is not in {len(table)} rows")
        padded = torch.cat([table, table.new_zeros(1, table.shape[1])])
        return padded[index % len(padded)]

    @rows.register_fake
    def _(table, index):
        if table.dim() != 2 or index.dim() != 1 or index.dtype != torch.int64:
            raise ValueError("a table, and positions in int64, please")
        return table.new_empty(index.shape[0], table.shape[1])

    return rows


def _means(name, entry):
    """The means of rows by segment; `entry(ids, count)` is where each is added, the last one spare."""

    def check(x, ids, count):
        if x.dim() != 2 or ids.shape != x.shape[:1] or count < 1:
            raise ValueError("a segment for each row, please")
        if not x.is_floating_point() or ids.dtype != torch.int64:
            raise TypeError("floating-point rows, and ids as int64, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(x: Tensor, ids: Tensor, count: int) -> Tensor:
        """The mean of the rows of each segment; zeros without any.

        x: (N, D)
        ids: (N,), below `count`. Rows with a negative id are left out.
        """
        check(x, ids, count)
        if len(ids) and int(ids.max()) >= count:
            raise ValueError("ids below the number of segments, please")
        sums = numpy.zeros((count + 1, x.shape[1]))
        counts = numpy.zeros(count + 1)
        numpy.add.at(sums, entry(ids, count).numpy(), x.detach().double().numpy())
        numpy.add.at(counts, entry(ids, count).numpy(), 1)
        return torch.from_numpy(sums[:-1] / counts[:-1, None].clip(1)).to(x.dtype)

    @means.register_fake
    def _(x, ids, count):
        check(x, ids, count)
        return x.new_empty(count, x.shape[1])

    return means


SEGMENTS = (tensor(5, 3), torch.tensor([2, 0, -1, 0, 1]), 3)


@aot(SEGMENTS, expected={"relations.padding_positions": "negative-positions-differ"})
def mean_with_one_spare_segment():
    """Adds rows of id -1 to a spare entry, and those of -2 to the last segment."""
    return _means("mean_with_one_spare_segment", lambda ids, count: ids)


@aot(SEGMENTS, twin_of="mean_with_one_spare_segment")
def mean_without_negative_ids():
    """Adds every row of a negative id to the spare entry."""
    return _means("mean_without_negative_ids", lambda ids, count: torch.where(ids < 0, count, ids))


@specimen(
    (tensor(2, 4), tensor(2, 4), torch.tensor([3, 4]), torch.tensor([2, 4])),
    requires_grad=[False],
    skips={"fake.symbolic": "no-second-size"},
)
def distance_of_two_sequences():
    """Correct: without the lengths of one sequence all of it counts, whatever those of the other are."""

    @torch.library.custom_op("zoo::distance_of_two_sequences", mutates_args=())
    def distance(
        x: Tensor,
        y: Tensor,
        lengths_x: Optional[Tensor] = None,
        lengths_y: Optional[Tensor] = None,
    ) -> Tensor:
        """The distance of the sums of two sequences.

        x: [batch, steps], y: [batch, steps]
        lengths_x, lengths_y: [batch], int64, from 1 on. What is behind the end of a sequence is ignored.
        """
        if x.dim() != 2 or y.dim() != 2 or len(x) != len(y) or 0 in (*x.shape, *y.shape):
            raise ValueError("two batches of sequences, please")
        if x.dtype != y.dtype:
            raise TypeError("two batches of one dtype, please")
        return (_sum_within(x, lengths_x) - _sum_within(y, lengths_y)).abs()

    distance.register_fake(lambda x, y, lengths_x=None, lengths_y=None: x.new_empty(x.shape[0]))
    return distance


def _sum_within(x, lengths):
    """The sum of each sequence up to its length."""
    if lengths is None:
        return x.sum(1)
    if lengths.shape != x.shape[:1] or lengths.dtype != torch.int64:
        raise ValueError("a length as int64 for each sequence, please")
    if int(lengths.min()) < 1 or int(lengths.max()) > x.shape[1]:
        raise ValueError("lengths are from 1 to the number of steps")
    return x.where(torch.arange(x.shape[1]) < lengths[:, None], 0).sum(1)


def _marked_sum(name, left_out):
    """A sum of numbers that a mask marks; `left_out(mask)` marks the others."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def marked(x: Tensor, mask: Tensor) -> Tensor:
        """Sum of the numbers where ``mask`` is set.

        ``mask`` has the shape of ``x``; uint8 or bool, as the reader gives it.
        """
        if mask.shape != x.shape or mask.dtype not in (torch.bool, torch.uint8):
            raise ValueError("numbers, and a mask of them, please")
        return x.masked_fill(left_out(mask) != 0, 0).sum()

    marked.register_fake(lambda x, mask: x.new_empty(()))
    return marked


@aot(LEFT_OUT, expected={"relations.mask_dtype": "mask-dtype-matters"})
def inverts_the_bits_of_marks():
    """Inverts the bits of uint8, none of which becomes 0."""
    return _marked_sum("inverts_the_bits_of_marks", lambda mask: ~mask)


@aot(LEFT_OUT, twin_of="inverts_the_bits_of_marks")
def compares_marks_with_zero():
    """Asks where the mark is 0."""
    return _marked_sum("compares_marks_with_zero", lambda mask: mask == 0)


@aot(
    (torch.tensor([[3], [4], [5], [2], [9], [12]]),),
    twin_of="carries_the_label_before",
)
def carries_on_from_row_to_row():
    """Correct: the rows are those of one picture, and only dims before them are independent."""

    def check(image):
        if image.dim() < 2 or image.dtype != torch.int64:
            raise ValueError("expected pictures in int64")

    @torch.library.custom_op("zoo::carries_on_from_row_to_row", mutates_args=())
    def carried(image: Tensor) -> Tensor:
        """The tens of each number; they are added to the next number, row by row.

        image: int64 (..., H, W); leading dims are independent pictures.
        """
        check(image)
        found, left = [], 0
        size = image.shape[-2] * image.shape[-1]
        for at, number in enumerate(image.flatten().tolist()):
            left = 0 if at % size == 0 else left
            found.append((number + left) // 10)
            left = number // 10
        return torch.tensor(found, dtype=torch.int64).reshape(image.shape)

    @carried.register_fake
    def _(image):
        check(image)
        return image.new_empty(image.shape)

    return carried


APART = torch.tensor([[2, 1, 1, 0], [2, 3, 2, 1], [2, 2, 1, 3]])


@aot((APART,), expected={**INDEPENDENT, "relations.special_entry": "entry-affects-batch"})
def carries_a_label_that_no_row_begins_with():
    """No row of the sample begins with a label with which one ends."""
    return _collapsed("carries_a_label_that_no_row_begins_with", resets=False)


@aot((APART,), twin_of="carries_a_label_that_no_row_begins_with")
def resets_a_label_that_no_row_begins_with():
    """Forgets the row before."""
    return _collapsed("resets_a_label_that_no_row_begins_with", resets=True)


def _marked(name, *, resets):
    """Where sums of the numbers of a row exceed 1."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def marked(x: Tensor) -> Tensor:
        """1 where a running sum exceeds 1, after which it starts again, for independent series (B, T)."""
        if x.dim() != 2 or not x.is_floating_point():
            raise ValueError("rows of floating-point numbers, please")
        found = torch.zeros(x.shape, dtype=torch.int64)
        total = 0.0
        for row, numbers in enumerate(x.tolist()):
            total = 0.0 if resets else total
            for at, number in enumerate(numbers):
                total += number
                if total > 1:
                    found[row, at], total = 1, 0.0
        return found

    marked.register_fake(lambda x: x.new_empty(x.shape, dtype=torch.int64))
    return marked


SERIES = torch.tensor([[0.75, 0.5, 0.0], [0.25, 0.9, 0.75], [0.4, 0.3, 0.5]])


@aot((SERIES[[0, 2, 1]],), expected=INDEPENDENT)
def carries_a_sum_to_the_next_series():
    """The sum that a series ends with is the next one's first."""
    return _marked("carries_a_sum_to_the_next_series", resets=False)


@aot((SERIES[[0, 2, 1]],), twin_of="carries_a_sum_to_the_next_series")
def starts_each_series_with_no_sum():
    """Starts each series with 0."""
    return _marked("starts_each_series_with_no_sum", resets=True)
