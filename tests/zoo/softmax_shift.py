"""Softmaxes, and what they subtract before the exponential."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])
WRONG = {"relations.softmax_shift": "softmax-depends-on-shift"}


def _attention_inputs():
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(2, 5, 4, generator=generator) for _ in range(3))


ATTENTION = _attention_inputs()


def _attention(name, begin, said="Softmax attention of single heads."):
    """Attention one key at a time; the running maximum begins with `begin`."""

    def kernel(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        check(q, k, v)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        top = scores.new_full(scores.shape[:-1], begin)
        total, out = torch.zeros_like(top), torch.zeros_like(q)
        for t in range(k.shape[1]):
            score = scores[..., t]
            new = torch.maximum(top, score)
            keep, weight = (top - new).exp(), (score - new).exp()
            total = total * keep + weight
            out = out * keep[..., None] + weight[..., None] * v[:, t, None]
            top = new
        return torch.where(total[..., None] > 0, out / total[..., None], 0.0)

    def check(q, k, v):
        if q.dim() != 3 or not q.shape == k.shape == v.shape:
            raise ValueError("queries, keys and values of one shape (B, T, D), please")
        if q.dtype not in (torch.float32, torch.float64) or {k.dtype, v.dtype} != {q.dtype}:
            raise TypeError("float32 or float64, please")

    kernel.__doc__ = said
    attention = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @attention.register_fake
    def _(q, k, v):
        check(q, k, v)
        return torch.empty_like(q, memory_format=torch.contiguous_format)

    return attention


@aot(ATTENTION, expected=WRONG)
def maximum_begins_with_the_smallest_above_zero():
    """If all scores are far below 0, every exponential is 0."""
    tiny = torch.finfo(torch.float32).tiny
    return _attention("maximum_begins_with_the_smallest_above_zero", tiny)


@aot(ATTENTION, twin_of="maximum_begins_with_the_smallest_above_zero")
def maximum_begins_with_infinity():
    """The first score is the first maximum."""
    return _attention("maximum_begins_with_infinity", -torch.inf)


@aot(ATTENTION)
def scores_are_cut_off_on_purpose():
    """Correct: the docstring says that scores are clamped."""
    tiny = torch.finfo(torch.float32).tiny
    said = "Softmax attention of single heads; scores are clamped at 0 where all are below it."
    return _attention("scores_are_cut_off_on_purpose", tiny, said)
