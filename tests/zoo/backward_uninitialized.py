"""Backwards that rely on memory which they have not written."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(6, 3)
SKIPS = {"gradcheck.double": "no-second-order"}
# Elements: the C library takes so large a block from the system, which hands out zeros, and gives it back.
LARGE = 2**24


def _every_second_row(name, allocate):
    """Every second row, doubled; `allocate` makes the workspace in which the gradient is put together."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rows(x: Tensor) -> Tensor:
        return 2 * x[::2].contiguous()

    @torch.library.custom_op(f"zoo::{name}_gradient", mutates_args=())
    def backward(x: Tensor, grad: Tensor) -> Tensor:
        workspace = allocate(LARGE, dtype=x.dtype)
        out = workspace[: x.numel()].view(x.shape)
        out[::2] = 2 * grad
        return out.clone()

    rows.register_fake(lambda x: x.new_empty((x.shape[0] + 1) // 2, *x.shape[1:]))
    backward.register_fake(lambda x, grad: x.new_empty(x.shape))
    rows.register_autograd(
        lambda ctx, grad: backward(*ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return rows


@specimen((MATRIX,), expected={"backward.uninitialized": "uninitialized-gradient"}, skips=SKIPS)
def takes_fresh_memory_for_zeros():
    """The gradient of the other rows is what fresh memory holds, which the system has cleared."""
    return _every_second_row("takes_fresh_memory_for_zeros", torch.empty)


@specimen((MATRIX,), skips=SKIPS, twin_of="takes_fresh_memory_for_zeros")
def clears_its_workspace():
    """The workspace is filled with zeros."""
    return _every_second_row("clears_its_workspace", torch.zeros)
