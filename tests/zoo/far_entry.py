"""Ops of rows that subtract a largest number before exp()."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
SPREADS = {"relations.far_entry": "far-entry-spreads"}
ROWS = (torch.linspace(-2, 2, 9).mul(5).sin().reshape(3, 3),)


def _lost(name, highest):
    """How well each row is matched with its own column; `highest(x)` is subtracted before exp()."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def lost(x: Tensor) -> Tensor:
        """The cross entropy (N,) of similarities (N, N); the right ones are on the diagonal."""
        if x.dim() != 2 or len({*x.shape}) != 1 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("a square matrix of float32 or float64, please")
        shifted = x - highest(x) if len(x) else x
        return shifted.exp().sum(1).log() - shifted.diagonal()

    lost.register_fake(lambda x: x.new_empty(x.shape[0]))
    return lost


@aot(ROWS, expected=SPREADS)
def loss_below_the_largest_of_all():
    """The exp() of a row far below the largest one is 0, and its logarithm is -inf."""
    return _lost("loss_below_the_largest_of_all", lambda x: x.max())


@aot(ROWS, twin_of="loss_below_the_largest_of_all")
def loss_below_the_largest_of_each():
    """The largest exp() of a row is 1."""
    return _lost("loss_below_the_largest_of_each", lambda x: x.amax(1, keepdim=True))


@aot((*ROWS, torch.eye(3)))
def adds_up_the_exponentials_of_neighbours():
    """Correct: exp() of a large number is infinite, and so are the sums that depend on it."""

    @torch.library.custom_op("zoo::adds_up_the_exponentials_of_neighbours", mutates_args=())
    def added(x: Tensor, weight: Tensor) -> Tensor:
        if x.dim() != 2 or weight.shape != (len(x), len(x)) or weight.dtype != x.dtype:
            raise ValueError("rows (N, C) and a weight for each two of them, please")
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError("float32 or float64, please")
        return torch.from_numpy(weight.numpy() @ x.exp().numpy())

    added.register_fake(lambda x, weight: x.new_empty(x.shape))
    return added
