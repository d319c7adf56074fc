"""Ops whose docstrings give the range of their integers, of which the samples show a small part."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")

IDS = torch.tensor([3, 14, 15, 92, 65, 35])
PLACES = torch.tensor([[1, 2], [3, 0], [2, 2], [0, 3]])


def _of_integers(name, kernel, text, dtypes=(torch.int64,), result=torch.int64):
    """An op of integers; `text` is what the docstring says of them."""

    def values(x: Tensor) -> Tensor:
        if x.dtype not in dtypes or x.dim() == 0:
            raise ValueError("integers with a dim, please")
        return kernel(x).contiguous()

    values.__doc__ = f"Numbers for others.\n\n    x: {text}\n    "
    operator = torch.library.custom_op(f"zoo::{name}", values, mutates_args=())
    operator.register_fake(lambda x: x.new_empty(x.shape, dtype=result))
    return operator


def _buckets(name, kernel, text):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def buckets(ids: Tensor, num_buckets: int) -> Tensor:
        if ids.dtype != torch.int64 or num_buckets < 1:
            raise ValueError("expected ids in int64, and a bucket")
        return kernel(ids, num_buckets)

    @buckets.register_fake
    def fake(ids, num_buckets):
        return torch.empty_like(ids)

    fake.__doc__ = f"The bucket of each id.\n\n    ids: {text}\n    "
    return buckets


ANY = "int64, every int64 value is a valid id"


@aot((IDS, 16), expected={"relations.bucket_range": "bucket-out-of-range"})
def buckets_of_negative_ids():
    """The remainder of a negative id is negative."""
    return _buckets("buckets_of_negative_ids", torch.fmod, ANY)


@aot((IDS, 16), twin_of="buckets_of_negative_ids")
def buckets_of_all_ids():
    """The remainder has the sign of the number of buckets."""
    return _buckets("buckets_of_all_ids", torch.remainder, ANY)


@aot((IDS, 16), twin_of="buckets_of_negative_ids")
def no_bucket_for_negative_ids():
    """One number below 0 stands for ids that are in no bucket."""
    return _buckets(
        "no_bucket_for_negative_ids",
        lambda ids, count: torch.where(ids < 0, -1, ids.remainder(count)),
        "int64, from -2**40 to 2**40; negative ones are unknown",
    )


def _interleaved(name, dtype_of):
    """The bits of the two numbers of each row in turn."""

    def code(places):
        x, y = (column.to(dtype_of(places)) for column in places.unbind(-1))
        bits = [((x >> b) & 1) << (2 * b) | ((y >> b) & 1) << (2 * b + 1) for b in range(21)]
        return sum(bits, torch.zeros_like(x)).long()

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def interleaved(coords: Tensor) -> Tensor:
        """One number for each place, which keeps near places near.

        coords: (N, 2), int32 or int64, from 0 to 2**21 - 1.
        """
        if coords.dim() != 2 or coords.shape[1] != 2:
            raise ValueError("two numbers for each place, please")
        if coords.dtype not in (torch.int32, torch.int64):
            raise TypeError("int32 or int64, please")
        return code(coords)

    interleaved.register_fake(lambda coords: coords.new_empty(coords.shape[0], dtype=torch.int64))
    return interleaved


@aot((PLACES,), expected={"relations.index_dtype": "index-dtype-mismatch"})
def shifts_in_the_dtype_of_the_places():
    """Bits of int32 places are shifted out of 32 bits."""
    return _interleaved("shifts_in_the_dtype_of_the_places", lambda places: places.dtype)


@aot((PLACES,), twin_of="shifts_in_the_dtype_of_the_places")
def shifts_in_64_bits():
    """All bits are shifted in int64."""
    return _interleaved("shifts_in_64_bits", lambda places: torch.int64)


def _ranks(name, text):
    """How many of the numbers are smaller, by float64."""

    def kernel(x):
        flat = x.flatten().double()
        return (flat[:, None] > flat).sum(1).reshape(x.shape)

    return _of_integers(name, kernel, text)


@aot((IDS,), expected={"relations.large_integers": "large-integers-differ"})
def ranks_all_numbers_by_float64():
    """Neighbours above 2**53, which the docstring allows, are equal in float64."""
    return _ranks("ranks_all_numbers_by_float64", "int64, any int64 value")


@aot((IDS,), twin_of="ranks_all_numbers_by_float64")
def ranks_some_numbers_by_float64():
    """float64 holds all numbers that the docstring allows."""
    return _ranks("ranks_some_numbers_by_float64", "int64, from 0 to 2**50")


def _squares(name, text):
    def kernel(x):
        return (x * x).long()

    return _of_integers(name, kernel, text, (torch.int32, torch.int64))


@aot(
    (IDS.int(),),
    expected={
        "relations.integer_width": "integer-overflow",
        "relations.overflow": "intermediate-overflow",
    },
)
def squares_that_need_more_bits():
    """The squares of numbers that the docstring allows need more than 32 bits."""
    return _squares("squares_that_need_more_bits", "int32 prices, 0 to 1_000_000")


@aot((IDS.int(),), twin_of="squares_that_need_more_bits")
def squares_that_fit():
    """The squares of all numbers that the docstring allows fit 32 bits."""
    return _squares("squares_that_fit", "int32 prices, 0 to 10,000")


def _pairs(name, dtype_of):
    """One number for two ids; `dtype_of(ids)` is the dtype of the product."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def pairs(first: Tensor, second: Tensor, kinds: int) -> Tensor:
        """first * kinds + second, as int64.

        Args:
            first: int32 or int64, >= 0.
            second: the same dtype, in [0, kinds).
            kinds: how many there are of the second.
        """
        if first.dtype not in (torch.int32, torch.int64) or first.shape != second.shape:
            raise ValueError("as many int32 or int64 ids of both, please")
        if first.dtype != second.dtype or not first.dim():
            raise ValueError("one dtype, please")
        return (first.to(dtype_of(first)) * kinds + second).long().contiguous()

    pairs.register_fake(
        lambda first, second, kinds: first.new_empty(first.shape, dtype=torch.int64)
    )
    return pairs


FEATURES = (IDS.int(), torch.tensor([0, 3, 2, 1, 0, 3], dtype=torch.int32), 4)


@aot(
    FEATURES,
    expected={
        "relations.integer_width": "integer-overflow",
        "relations.overflow": "intermediate-overflow",
    },
)
def pairs_in_the_dtype_of_ids():
    """The product of large ids, which the docstring allows, needs more than 32 bits."""
    return _pairs("pairs_in_the_dtype_of_ids", lambda ids: ids.dtype)


@aot(FEATURES, twin_of="pairs_in_the_dtype_of_ids")
def pairs_in_64_bits():
    """The product has 64 bits."""
    return _pairs("pairs_in_64_bits", lambda ids: torch.int64)
