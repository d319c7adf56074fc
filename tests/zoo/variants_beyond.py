"""Ops that are wrong beyond what the example shows only, or whose fake kernels raise on purpose.

What these rules note, and what they fail, stands in the documentation: what fails, what is a note.
"""

import math
from typing import Sequence

import torch
from torch import Tensor

from pytest_customop import tensor

from .variants import MATRIX, RAISES, SHAPE, specimen


def _encoded(name, fake):
    """The rows of a codebook that are nearest to the rows of the input; zeros for an empty codebook."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def encoded(x: Tensor, codebook: Tensor) -> Tensor:
        if x.dim() != 2 or codebook.dim() != 2 or x.shape[1] != codebook.shape[1]:
            raise ValueError("rows of one length, please")
        if x.dtype != codebook.dtype:
            raise TypeError("tensors of one dtype, please")
        if not codebook.shape[0]:
            return x.new_zeros(x.shape[0], 1)
        return codebook[torch.cdist(x.float(), codebook.float()).argmin(1)]

    encoded.register_fake(fake)
    return encoded


CODES = (MATRIX, tensor(5, 6))


@specimen(CODES, variant_notes=SHAPE, shown_by="codebook.empty0")
def fake_for_a_codebook_with_rows():
    """The real kernel takes a codebook without rows as well, for which the fake kernel is wrong."""
    fake = lambda x, codebook: x.new_empty(x.shape)  # noqa: E731
    return _encoded("fake_for_a_codebook_with_rows", fake)


@specimen(CODES, twin_of="fake_for_a_codebook_with_rows")
def fake_for_any_codebook():
    """Both kernels take a codebook without rows."""

    def fake(x, codebook):
        return x.new_empty(x.shape if codebook.shape[0] else (x.shape[0], 1))

    return _encoded("fake_for_any_codebook", fake)


def _scattered(name, accumulate):
    """The values at rows and columns of a square."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scattered(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        if not rows.dtype == columns.dtype == torch.int64:
            raise TypeError("whole numbers of 64 bits, please")
        if rows.shape != values.shape or columns.shape != values.shape:
            raise ValueError("a row and a column for each value, please")
        into = values.new_zeros(8, 8)
        return into.index_put_((rows, columns), values, accumulate=accumulate)

    scattered.register_fake(lambda values, rows, columns: values.new_empty(8, 8))
    return scattered


FIXED = {"fake.symbolic": "no-second-size"}
SPARSE = (tensor(3), tensor(values=[5, 0, 7]), tensor(values=[3, 3, 1]))


def _dense(values, rows, columns):
    return values.new_zeros(64).index_add(0, 8 * rows + columns, values).view(8, 8)


@specimen(
    SPARSE,
    reference=_dense,
    skips=FIXED,
    variant_notes={"reference.values": "reference-mismatch"},
    shown_by=("rows.lowest", "rows.highest"),
)
def keeps_the_last_of_equal_places():
    """Overwrites a place that comes twice, as no pair of a row and a column of the example does."""
    return _scattered("keeps_the_last_of_equal_places", accumulate=False)


@specimen(SPARSE, reference=_dense, skips=FIXED, twin_of="keeps_the_last_of_equal_places")
def adds_up_equal_places():
    """Adds up where a place comes twice."""
    return _scattered("adds_up_equal_places", accumulate=True)


def _padded(name, fake):
    """The rows of a matrix, with zeros below them."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def padded(x: Tensor, rows: int) -> Tensor:
        if x.dim() != 2 or x.shape[0] > rows:
            raise ValueError(f"a matrix of {rows} rows at most, please")
        out = x.new_zeros(rows, x.shape[1])
        out[: x.shape[0]] = x
        return out

    padded.register_fake(fake)
    return padded


@specimen((MATRIX, 4), variant_findings=SHAPE, shown_by=("one0", "empty0", "rows.more"))
def fake_without_padding():
    """The fake kernel returns the rows that there are; the example has as many as it asks for."""
    return _padded("fake_without_padding", lambda x, rows: x.new_empty(x.shape))


@specimen((MATRIX, 4), twin_of="fake_without_padding")
def fake_with_padding():
    """Both kernels return the rows that are asked for."""
    return _padded("fake_with_padding", lambda x, rows: x.new_empty(rows, x.shape[1]))


def _tripled(name, fake):
    """Three times a matrix."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def tripled(x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return x.contiguous() * 3

    tripled.register_fake(fake)
    return tripled


@specimen(
    (tensor(4, 4),),
    notes={"fake.symbolic": "fake-shape-mismatch"},
    variant_notes=SHAPE,
    shown_by="distinct",
)
def fake_swaps_the_sides():
    """The fake kernel swaps height and width, which is right for every square."""
    return _tripled("fake_swaps_the_sides", lambda x: x.new_empty(x.shape[1], x.shape[0]))


@specimen((tensor(4, 4),), twin_of="fake_swaps_the_sides")
def fake_keeps_the_sides():
    """Both kernels return the sides as they are."""
    return _tripled("fake_keeps_the_sides", lambda x: x.new_empty(x.shape))


def _scaled(name, fake):
    """Twice the input, or half of it."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def scaled(x: Tensor, halve: bool) -> Tensor:
        return x * (0.5 if halve else 2.0)

    scaled.register_fake(fake)
    return scaled


@specimen((MATRIX, False), variant_notes=RAISES, shown_by="halve.true")
def fake_rejects_a_flag():
    """The fake kernel says that it does not support a flag, which the real kernel takes."""

    def fake(x, halve):
        torch._check(not halve, lambda: "halving is not traced yet")
        return torch.empty_like(x)

    return _scaled("fake_rejects_a_flag", fake)


@specimen((MATRIX, False), variant_findings=RAISES, shown_by="halve.true")
def fake_stumbles_over_a_flag():
    """The fake kernel raises for a flag, which nobody meant."""

    def fake(x, halve):
        return torch.empty_like(x, dtype={False: x.dtype}[halve])

    return _scaled("fake_stumbles_over_a_flag", fake)


@specimen((MATRIX, False), twin_of=("fake_rejects_a_flag", "fake_stumbles_over_a_flag"))
def fake_takes_a_flag():
    """Both kernels take the flag."""
    return _scaled("fake_takes_a_flag", lambda x, halve: torch.empty_like(x))


def _unpacked(name, takes_none):
    """Numbers of 4 bits, two in each byte, in the sizes that are given."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def unpacked(packed: Tensor, sizes: Sequence[int]) -> Tensor:
        if takes_none and not packed.numel():
            return packed.new_empty(0)
        count = math.prod(sizes)
        if packed.dtype != torch.uint8 or count > 2 * packed.numel():
            raise ValueError("bytes for all numbers, please")
        numbers = torch.stack([packed & 15, packed >> 4], -1).flatten()
        return numbers[:count].clone().reshape(sizes)

    unpacked.register_fake(lambda packed, sizes: packed.new_empty(sizes))
    return unpacked


PACKED = (tensor(4, 5, dtype=torch.uint8, low=0, high=256), [2, 20])


@specimen(PACKED, variant_notes=SHAPE, shown_by="empty0")
def fake_for_bytes_of_all_numbers():
    """The sizes are not compared with the bytes: there may be none, for which the fake kernel is wrong."""
    return _unpacked("fake_for_bytes_of_all_numbers", takes_none=True)


@specimen(PACKED, twin_of="fake_for_bytes_of_all_numbers")
def rejects_too_few_bytes():
    """The op raises if there are fewer bytes than the sizes ask for."""
    return _unpacked("rejects_too_few_bytes", takes_none=False)
