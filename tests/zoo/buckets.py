"""Ids that are mapped to the places of a table, some of them outside of it."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")

IDS = torch.tensor([3, 14, 15, 92, 65, 35])
_FACTOR = 2654435761  # Knuth's, for multiplicative hashing


def _buckets(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def buckets(ids: Tensor, num_buckets: int) -> Tensor:
        """The place of each id, int64, in a table with so many rows."""
        check(ids, num_buckets)
        return kernel(ids, num_buckets)

    def check(ids, num_buckets):
        if ids.dtype != torch.int64 or num_buckets < 1:
            raise ValueError("expected ids in int64, and a bucket")

    @buckets.register_fake
    def _(ids, num_buckets):
        check(ids, num_buckets)
        return torch.empty_like(ids)

    return buckets


@aot((IDS, 16), expected={"relations.bucket_range": "bucket-out-of-range"})
def hashes_below_zero():
    """The product wraps for large ids, and fmod of a negative number is negative."""
    return _buckets("hashes_below_zero", lambda ids, count: torch.fmod(ids * _FACTOR, count))


@aot((IDS, 16), twin_of="hashes_below_zero")
def hashes_into_the_table():
    """The same hash; the remainder has the sign of the number of buckets."""
    return _buckets(
        "hashes_into_the_table", lambda ids, count: torch.remainder(ids * _FACTOR, count)
    )


@aot((IDS % 16, 16), twin_of="hashes_below_zero")
def marks_unknown_ids():
    """Ids are places; one number stands for those that are in no table."""
    return _buckets(
        "marks_unknown_ids",
        lambda ids, count: torch.where(ids < count, ids, torch.full_like(ids, -1)),
    )
