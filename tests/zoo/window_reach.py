"""Windows whose length is an argument."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
REACH = {"relations.window_reach": "window-cut-off"}
READS = (tensor(2, 12, dtype=torch.int64, low=0, high=4), 3)
SAID = """The k-mers of reads as numbers, two bits for each base, the first one highest.

Args:
    reads: [B, L] bases, 0 to 3.
    k: how many bases, 1 to 31.
"""


def _windows(name, said, code, limit=31):
    """An op of sequences; `code(windows, k)` makes a number of each window, the last dim of `windows`."""

    def kernel(reads: Tensor, k: int) -> Tensor:
        if reads.dim() != 2 or reads.dtype != torch.int64 or not 1 <= k <= limit:
            raise ValueError(f"int64 reads, please, and k from 1 to {limit}")
        if reads.shape[1] < k:
            return reads.new_empty(reads.shape[0], 0)
        return code(reads.unfold(1, k, 1), k).contiguous()

    def fake(reads, k):
        return reads.new_empty(reads.shape[0], torch.sym_max(reads.shape[1] - k + 1, 0))

    kernel.__doc__ = said
    op = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    op.register_fake(fake)
    return op


def _packed(dtype):
    def code(windows, k):
        packed = torch.zeros(windows.shape[:2], dtype=dtype)
        for at in range(k):
            packed = (packed << 2) | windows[:, :, at].to(dtype)
        return packed.to(torch.int64)

    return code


@aot(READS, expected=REACH)
def kmers_in_32_bits():
    """From the 17th base on, the first ones are shifted out."""
    return _windows("kmers_in_32_bits", SAID, _packed(torch.int32))


@aot(READS, twin_of="kmers_in_32_bits")
def kmers_in_64_bits():
    """The same in 64 bits."""
    return _windows("kmers_in_64_bits", SAID, _packed(torch.int64))


@aot(READS, notes=REACH)
def sums_of_at_most_20():
    """Adds up 20 elements and no more, which nothing says."""
    said = "The sum of each window of `k` numbers of [B, L]."
    return _windows(
        "sums_of_at_most_20", said, lambda windows, k: windows[:, :, :20].sum(2), limit=1000
    )


@aot(READS)
def sums_of_windows():
    """Adds up all."""
    said = "The sum of each window of `k` numbers of [B, L]."
    return _windows("sums_of_windows", said, lambda windows, k: windows.sum(2), limit=1000)


@aot(READS)
def largest_of_windows():
    """Correct: most elements have no influence on a maximum."""
    said = "The largest of each window of `k` numbers of [B, L]."
    return _windows("largest_of_windows", said, lambda windows, k: windows.amax(2), limit=1000)


@aot(READS)
def rounded_means_of_windows():
    """Correct: one number among many has no influence on a rounded mean."""
    said = "The mean of each window of `k` numbers of [B, L], rounded down."
    return _windows(
        "rounded_means_of_windows", said, lambda windows, k: windows.sum(2) // k, limit=1000
    )


@aot(READS)
def first_places_of_windows():
    """Correct: the docstring says that larger `k` are no longer than that."""
    said = (
        "The sum of each window of [B, L].\n\nArgs:\n    k: the length, 1 to 20; windows end then."
    )
    return _windows(
        "first_places_of_windows", said, lambda windows, k: windows[:, :, :20].sum(2), limit=1000
    )


@aot((tensor(2, 12), 3), (tensor(12), 3))
def smoothed_often():
    """Correct: the influence of an element on others fades with each step."""

    @torch.library.custom_op("zoo::smoothed_often", mutates_args=())
    def op(x: Tensor, steps: int) -> Tensor:
        """Smooths [B, T] or [T] `steps` times, over three neighbours each time."""
        if x.dim() not in (1, 2) or not 0 <= steps <= 1000:
            raise ValueError("series, please, and at most 1000 steps")
        for _ in range(steps if x.numel() else 0):
            x = torch.nn.functional.pad(x, (1, 1)).unfold(-1, 3, 1).mean(-1)
        return x.clone(memory_format=torch.contiguous_format)

    op.register_fake(lambda x, steps: torch.empty_like(x, memory_format=torch.contiguous_format))
    return op
