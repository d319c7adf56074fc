"""Batches whose entries offsets mark, and which docstrings call independent."""

import functools
import itertools
from typing import Tuple

import numpy
import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
BROKEN = {"relations.ragged_entries": "ragged-entry-depends-on-others"}
NO_SIZE = {"fake.symbolic": "no-second-size"}  # the offsets refer to the size
WORDS = (torch.tensor([3, 3, 1, 4, 1, 1, 5, 9, 2, 6]), torch.tensor([0, 4, 7, 10]))
NUMBERS = (torch.tensor([0.5, 1.5, 1.0, 2.0, -1.0, 0.25]), torch.tensor([0, 2, 5, 6]))


def _check(data, offsets):
    if data.dim() != 1 or offsets.dim() != 1 or offsets.dtype != torch.int64 or not len(offsets):
        raise ValueError("data (L,) and offsets (B + 1,) of int64, please")


def _without_repeats(name, starts):
    """Words without repeated letters; `starts(keep, offsets)` keeps the first letters of words."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def squeezed(data: Tensor, offsets: Tensor) -> Tuple[Tensor, Tensor]:
        """Letters that are not the same as the one before, and where words begin among them.

        Args:
            data: (L,) the letters of words, one word behind the other.
            offsets: (B + 1,) int64, where each word begins, and L. Each word is squeezed on its own.
        """
        _check(data, offsets)
        if data.is_floating_point() or int(offsets[-1]) != len(data) or int(offsets[0]):
            raise ValueError("letters are integers, and offsets go from 0 to their number")
        keep = torch.ones(len(data), dtype=torch.bool)
        keep[1:] = data[1:] != data[:-1]
        starts(keep, offsets)
        counted = torch.nn.functional.pad(keep.cumsum(0), (1, 0))
        return data[keep], counted[offsets]

    @squeezed.register_fake
    def _(data, offsets):
        size = torch.library.get_ctx().new_dynamic_size()
        return data.new_empty(size), offsets.new_empty(offsets.shape[0])

    return squeezed


def _keep_first(keep, offsets):
    keep[offsets[:-1][offsets[:-1] < len(keep)]] = True


@aot(WORDS, expected=BROKEN, skips=NO_SIZE)
def first_letter_repeats_the_word_before():
    """The first letter of a word is dropped if the word before ends with it."""
    return _without_repeats("first_letter_repeats_the_word_before", lambda keep, offsets: None)


@aot(WORDS, twin_of="first_letter_repeats_the_word_before", skips=NO_SIZE)
def first_letter_of_a_word_stays():
    """The first letter of each word has none before it."""
    return _without_repeats("first_letter_of_a_word_stays", _keep_first)


def _totals(name, of_entry):
    """Sums of entries; `of_entry(sums, offsets)` of running sums."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def totals(data: Tensor, offsets: Tensor) -> Tensor:
        """The largest running sum (B,) of each entry, independently for each; -1e9 for empty ones.

        data: (L,), offsets: (B + 1,) int64, where entries begin, and L.
        """
        _check(data, offsets)
        if not data.is_floating_point() or int(offsets[-1]) != len(data) or int(offsets[0]):
            raise ValueError("numbers, and offsets from 0 to how many there are, please")
        bounds = offsets.tolist()
        largest = [of_entry(data, start, stop) for start, stop in itertools.pairwise(bounds)]
        return torch.tensor(largest, dtype=data.dtype)

    totals.register_fake(lambda data, offsets: data.new_empty(offsets.shape[0] - 1))
    return totals


def _carried(data, start, stop):
    """The largest sum from the first number below 0 before the entry on."""
    while 0 < start < stop and data[start - 1] == data[start]:
        start -= 1
    return float(data[start:stop].cumsum(0).max()) if start < stop else -1e9


@aot(NUMBERS, expected=BROKEN, skips=NO_SIZE)
def entry_begins_at_an_equal_number_before():
    """Equal numbers before an entry count as its own."""
    return _totals("entry_begins_at_an_equal_number_before", _carried)


@aot(NUMBERS, twin_of="entry_begins_at_an_equal_number_before", skips=NO_SIZE)
def entry_begins_at_its_offset():
    """An entry has its own numbers."""
    return _totals(
        "entry_begins_at_its_offset",
        lambda data, start, stop: float(data[start:stop].cumsum(0).max()) if start < stop else -1e9,
    )


def _sums(name, total):
    """The sum of each segment; `total(values, offsets)` adds them up in numpy."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sums(data: Tensor, offsets: Tensor) -> Tensor:
        """The sums of segments.

        Args:
            data: (L,) float32 or float64.
            offsets: (B + 1,) int64 from 0 to L. Two equal ones stand for an empty segment, which gives 0.
        """
        _check(data, offsets)
        if not data.is_floating_point() or int(offsets[0]) or int(offsets[-1]) != len(data):
            raise ValueError("numbers, and offsets from 0 to their count, please")
        if bool((offsets.diff() < 0).any()):
            raise ValueError("offsets that do not fall, please")
        found = total(data.detach().double().numpy(), offsets.numpy())
        return torch.from_numpy(found).to(data.dtype)

    sums.register_fake(lambda data, offsets: data.new_empty(offsets.shape[0] - 1))
    return sums


def _reduced(data, offsets):
    return numpy.add.reduceat(numpy.append(data, 0.0), offsets[:-1])


def _differences(data, offsets):
    return numpy.diff(numpy.append(0.0, data.cumsum())[offsets])


@aot(NUMBERS, expected=BROKEN, skips=NO_SIZE)
def empty_segment_gives_the_next_element():
    """reduceat gives the element at an offset that equals the next one."""
    return _sums("empty_segment_gives_the_next_element", _reduced)


@aot(NUMBERS, twin_of="empty_segment_gives_the_next_element", skips=NO_SIZE)
def empty_segment_gives_zero():
    """A difference of running sums."""
    return _sums("empty_segment_gives_zero", _differences)
