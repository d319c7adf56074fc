"""Ops that take a hash of a name, or of numbers."""

import functools
import zlib

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
IDS = tensor(6, dtype=torch.int64, low=0, high=1000)


def _buckets(name, salt):
    """The bucket of each id; `salt(field)` is what tells fields apart."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def buckets(ids: Tensor, field: str, count: int) -> Tensor:
        if ids.dtype != torch.int64 or count < 1:
            raise ValueError("int64 ids and at least one bucket, please")
        return torch.remainder(ids ^ (salt(field) & 0xFFFF), count)

    buckets.register_fake(lambda ids, field, count: ids.new_empty(ids.shape))
    return buckets


@aot((IDS, "user", 97), expected={"relations.hash_seed": "result-depends-on-hash-seed"})
def buckets_by_the_hash_of_a_name():
    """hash("user") is another number in each process."""
    return _buckets("buckets_by_the_hash_of_a_name", lambda field: hash(field))


@aot((IDS, "user", 97))
def buckets_by_a_checksum():
    """A checksum of the name is the same everywhere."""
    return _buckets("buckets_by_a_checksum", lambda field: zlib.crc32(field.encode()))


@aot((IDS, "user", 97), twin_of="buckets_by_the_hash_of_a_name")
def buckets_by_the_hash_of_a_number():
    """The hash of a number, and of a tuple of numbers, does not depend on the process."""
    return _buckets("buckets_by_the_hash_of_a_number", lambda field: hash((len(field), 17)))
