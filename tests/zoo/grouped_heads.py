"""Attentions in which several heads of queries share one head of keys."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
APART = {"relations.grouped_heads": "head-grouping-mismatch"}
CONSECUTIVE = "Query heads in runs of consecutive ones share a head of the keys."
FEW = (tensor(2, 6, 4), tensor(2, 2, 5, 4), tensor(2, 2, 5, 4))
AS_MANY = (tensor(2, 4, 4), tensor(2, 4, 5, 4), tensor(2, 4, 5, 4))


def _attention(name, repeated, said=CONSECUTIVE):
    """An op for one query each; `repeated(x, times)` gives a head of keys for each of the queries."""

    def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        check(q, k, v)
        times = q.shape[1] // k.shape[1]
        scores = (repeated(k, times) @ q[..., None])[..., 0] / q.shape[-1] ** 0.5
        return (
            (scores.softmax(-1)[:, :, None] @ repeated(v, times))[:, :, 0].to(q.dtype).contiguous()
        )

    def check(q, k, v):
        if q.dim() != 3 or k.dim() != 4 or k.shape != v.shape or 0 in k.shape:
            raise ValueError("queries (B, H, D), and keys and values (B, G, T, D), please")
        if q.shape[0] != k.shape[0] or q.shape[2] != k.shape[3] or q.shape[1] % k.shape[1]:
            raise ValueError("sizes that fit, please")
        if not q.dtype == k.dtype == v.dtype:
            raise TypeError("one dtype, please")

    kernel.__doc__ = f"""Attention of one query for each head.

    {said}

    Args:
        q: (B, Hq, D)
        k: (B, Hkv, T, D), with a number of heads that divides that of the queries.
        v: (B, Hkv, T, D)
    """
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @op.register_fake
    def _(q, k, v):
        check(q, k, v)
        return q.new_empty(q.shape)

    return op


def _repeated(x, times):
    return x.repeat_interleave(times, 1)


def _tiled(x, times):
    return x.repeat(1, times, 1, 1)


@aot(FEW, expected=APART)
def shares_heads_by_their_remainder():
    """Repeats all heads of the keys, not each."""
    return _attention("shares_heads_by_their_remainder", _tiled)


@aot(AS_MANY, expected=APART)
def shares_heads_by_their_remainder_in_silence():
    """The same; the sample has as many heads of keys as of queries."""
    return _attention("shares_heads_by_their_remainder_in_silence", _tiled)


@aot(
    FEW,
    AS_MANY,
    twin_of=(
        "shares_heads_by_their_remainder",
        "shares_heads_by_their_remainder_in_silence",
    ),
)
def shares_heads_in_a_row():
    """Repeats each head of the keys."""
    return _attention("shares_heads_in_a_row", _repeated)


@aot(FEW, notes=APART)
def shares_heads_and_says_nothing():
    """Repeats all heads; the docstring does not say which share one."""
    return _attention("shares_heads_and_says_nothing", _tiled, "Keys may have fewer heads.")


@aot(FEW)
def shares_heads_by_their_remainder_and_says_so():
    """Correct: the docstring gives the order."""
    said = "Query head h uses the keys of head h % Hkv."
    return _attention("shares_heads_by_their_remainder_and_says_so", _tiled, said)
