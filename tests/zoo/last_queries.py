"""Attention with fewer queries than keys, and what docstrings say of their positions."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
SAME_LENGTHS = (tensor(2, 5, 4), tensor(2, 5, 4), tensor(2, 5, 3))


def _attention(name, mask, text):
    """Causal attention; `mask(queries, keys)` says which keys each query sees."""

    def check(q, k, v):
        if not q.dim() == k.dim() == v.dim() == 3 or q.shape[1] > k.shape[1]:
            raise ValueError("no more queries than keys, please")
        if q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2] or k.shape[:2] != v.shape[:2]:
            raise ValueError("sizes that fit, please")
        if not q.dtype == k.dtype == v.dtype:
            raise TypeError("one dtype, please")

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        check(q, k, v)
        visible = mask(q.shape[1], k.shape[1])
        scores = (q.double() @ k.double().mT).masked_fill(~visible, -torch.inf)
        return (scores.softmax(-1) @ v.double()).to(q.dtype).contiguous()

    @attention.register_fake
    def fake(q, k, v):
        check(q, k, v)
        return q.new_empty((q.shape[0], q.shape[1], v.shape[2]))

    fake.__doc__ = f"""Causal attention. {text}

    q: (B, Lq, D)
    k, v: (B, Lk, D) and (B, Lk, E)
    """
    return attention


def _from_the_first(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril()


LAST = "Query i stands at position Lk - Lq + i and sees all keys up to there."


@aot(SAME_LENGTHS, expected={"relations.last_queries": "last-queries-differ"})
def first_queries_for_last():
    """The first query sees the first key, however many keys there are."""
    return _attention("first_queries_for_last", _from_the_first, LAST)


@aot(SAME_LENGTHS, twin_of="first_queries_for_last")
def last_queries_see_all_before():
    """The last query sees the last key."""

    def mask(queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)

    return _attention("last_queries_see_all_before", mask, LAST)


@aot(SAME_LENGTHS)
def queries_from_the_first():
    """Queries begin with the first key; each sees the last two keys up to its own."""

    def mask(queries, keys):
        visible = _from_the_first(queries, keys)
        return visible & ~visible.tril(-2)

    return _attention(
        "queries_from_the_first", mask, "Query i attends to the last two keys up to key i."
    )
