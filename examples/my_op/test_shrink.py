"""The smallest whole example: an op, its fake kernel, its formula, and one mark.

pytest examples/my_op
"""

import torch

from pytest_customop import customop_cases, tensor


@torch.library.custom_op("examples::shrink", mutates_args=())
def shrink(x: torch.Tensor, keep: int) -> torch.Tensor:
    """The first `keep` columns of a matrix, in memory of their own."""
    return _new_result(x, keep).copy_(x[:, :keep])


@shrink.register_fake
def _(x: torch.Tensor, keep: int) -> torch.Tensor:
    return _new_result(x, keep)


def _new_result(x: torch.Tensor, keep: int) -> torch.Tensor:
    # Both kernels call this, so they agree on errors, sizes and strides for every input.
    if x.dim() != 2 or not 0 <= keep <= x.shape[1]:
        raise ValueError(f"shrink: keep={keep} columns of a tensor of shape {tuple(x.shape)}")
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
)
def test_shrink(customop_case):
    x, keep = customop_case.args
    torch.testing.assert_close(customop_case(), x[:, :keep])
