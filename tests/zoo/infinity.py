"""Ops for which NaN marks something missing, and what they do with infinite numbers."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
INFINITY = {"relations.infinity": "infinity-differs"}
FEATURE = (tensor(12), torch.tensor([-1.0, 0.0, 1.0]))
ANY = "Every value is allowed; NaN stands for a missing one."


def _buckets(name, is_missing, said=ANY):
    """The bucket of each number; those that are `is_missing(x)` are in bucket 0."""

    def kernel(x: Tensor, edges: Tensor) -> Tensor:
        check(x, edges)
        buckets = torch.bucketize(x.contiguous(), edges.contiguous()) + 1
        return torch.where(is_missing(x), 0, buckets).contiguous()

    def check(x, edges):
        if x.dtype != torch.float32 or edges.dtype != torch.float32 or edges.dim() != 1:
            raise ValueError("numbers and edges of float32, please")

    kernel.__doc__ = f"""The bucket of each number; bucket 0 is for missing ones.

    Args:
        x: of any shape. {said}
        edges: (K,), finite, ascending.
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @op.register_fake
    def _(x, edges):
        check(x, edges)
        return x.new_empty(x.shape, dtype=torch.int64)

    return op


@aot(FEATURE, expected=INFINITY)
def takes_infinity_for_missing():
    """Infinite numbers count as missing."""
    return _buckets("takes_infinity_for_missing", lambda x: ~x.isfinite())


@aot(FEATURE, notes=INFINITY)
def takes_infinity_for_missing_and_says_nothing():
    """The same; no docstring says that any number is allowed."""
    return _buckets(
        "takes_infinity_for_missing_and_says_nothing",
        lambda x: ~x.isfinite(),
        "NaN stands for a missing one.",
    )


@aot(FEATURE, twin_of="takes_infinity_for_missing")
def puts_infinity_into_the_last_bucket():
    """Only NaN counts as missing."""
    return _buckets("puts_infinity_into_the_last_bucket", torch.isnan)


@aot(FEATURE)
def takes_infinity_for_missing_and_says_so():
    """Correct: the docstring says that only finite numbers count."""
    return _buckets(
        "takes_infinity_for_missing_and_says_so",
        lambda x: ~x.isfinite(),
        "Any number is allowed; NaN and infinite ones are missing.",
    )
