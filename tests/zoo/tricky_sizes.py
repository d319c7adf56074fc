"""Correct ops that are easy to misjudge by the sizes that they take."""

import functools
from typing import Sequence

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")


@specimen((tensor(5, 3),), plain=[(tensor(4, 3),)])
def rows_of_three():
    """Correct for rows of three, which it is for; takes longer rows without a word, and then its backward
    raises."""

    @torch.library.custom_op("zoo::rows_of_three", mutates_args=())
    def double(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] < 3:
            raise ValueError("rows of three, please")
        return x[:, :3].contiguous() * 2

    double.register_fake(lambda x: x.new_empty(x.shape[0], 3))

    def setup(ctx, inputs, output):
        ctx.columns = inputs[0].shape[1]

    def backward(ctx, grad):
        if ctx.columns != 3:
            raise ValueError("rows of three, please")
        return grad * 2

    double.register_autograd(backward, setup_context=setup)
    return double


@specimen((tensor(4, 8), [1, 8]))
def largest_of_blocks():
    """Correct: the fake kernel asks whether a block is a whole row, for which it has a shorter way."""

    @torch.library.custom_op("zoo::largest_of_blocks", mutates_args=())
    def largest(x: Tensor, block: Sequence[int]) -> Tensor:
        rows, columns = (size // part for size, part in zip(x.shape, block, strict=True))
        return x.reshape(rows, block[0], columns, block[1]).amax((1, 3))

    @largest.register_fake
    def _(x, block):
        columns = 1 if block[1] == x.shape[1] else x.shape[1] // block[1]
        return x.new_empty(x.shape[0] // block[0], columns)

    return largest
