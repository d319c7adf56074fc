"""Correct ops that are easy to misjudge on inputs that nobody chose."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")


@specimen((tensor(2, 4),))
def rest_of_row():
    """Correct: after three columns of four one is left, and torch makes a size of 1 a constant."""

    @torch.library.custom_op("zoo::rest_of_row", mutates_args=())
    def rest(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] < 3:
            raise ValueError("three columns at least, please")
        return x[:, 3:].clone()

    rest.register_fake(lambda x: x.new_empty(x.shape[0], x.shape[1] - 3))
    return rest


@specimen((tensor(4, 6),))
def large_whole_number():
    """Correct: a whole number above those that float32 holds one by one, rounded as in the dtype of x."""

    @torch.library.custom_op("zoo::large_whole_number", mutates_args=())
    def middle(x: Tensor) -> Tensor:
        return (x.new_full((x.shape[0],), 1 / 3) * 2.0**31).to(torch.int64)

    middle.register_fake(lambda x: x.new_empty(x.shape[0], dtype=torch.int64))
    return middle
