"""The smallest whole example: an op, its fake kernel, its formula, and one mark.

pytest examples/my_op
"""

import torch

from pytest_customop import customop_cases, tensor


@torch.library.custom_op("examples::shrink", mutates_args=())
def shrink(x: torch.Tensor, keep: int) -> torch.Tensor:
    """The first `keep` columns of a matrix, in memory of their own."""
    return x[:, :keep].clone(memory_format=torch.contiguous_format)


@shrink.register_fake
def _(x: torch.Tensor, keep: int) -> torch.Tensor:
    return x.new_empty(x.shape[0], keep)


def _setup(ctx, inputs, output):
    x, ctx.keep = inputs
    ctx.shape = x.shape


def _backward(ctx, grad):
    full = grad.new_zeros(ctx.shape)
    full[:, : ctx.keep] = grad
    return full, None


shrink.register_autograd(_backward, setup_context=_setup)


@customop_cases(
    shrink,
    samples=[(tensor(5, 4), 2), (tensor(3, 7), 1)],
    dtypes=[torch.float32, torch.float64],
    layouts=["contiguous", "transposed"],
)
def test_shrink(customop_case):
    x, keep = customop_case.inputs()[0]
    torch.testing.assert_close(customop_case(), x[:, :keep])
