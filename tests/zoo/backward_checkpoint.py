"""Ops that activation checkpointing, which calls them twice, gets wrong."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from . import registry

# These are about formulas: a backend that generates no code tells as much, and sooner.
specimen = functools.partial(registry.specimen, backend="aot_eager")

MATRIX = tensor(4, 3)


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(x, name):
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.zoo, name)(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, grad_mask):
        (mask,) = ctx.saved_tensors
        return grad * mask, None


def _dropout(name, draw):
    """A dropout that returns its mask too; `draw(x)` gives random numbers."""
    library = registry.library()
    tags = (torch.Tag.nondeterministic_seeded,)
    library.define(f"{name}(Tensor x) -> (Tensor, Tensor)", tags=tags)

    def dropout(x):
        mask = (draw(x) > 0.5).to(x.dtype)
        return x * mask, mask

    library.impl(name, dropout, "CPU")
    library.impl(name, lambda x: _Masked.apply(x, name), "Autograd")

    def fake(x):
        mask = x.new_empty(x.shape)
        return x * mask, mask

    torch.library.register_fake(f"zoo::{name}", fake, lib=library)
    return getattr(torch.ops.zoo, name).default


@specimen(
    (MATRIX,),
    expected={
        "backward.checkpoint": "checkpoint-mismatch",
        "relations.seed": "outputs-ignore-seed",
    },
    skips={
        "gradcheck.backward": "nondeterministic",
        "gradcheck.double": "nondeterministic",
        "opcheck.test_aot_dispatch_dynamic": "checker-limit",
        "values.repeat": "nondeterministic",
    },
)
def dropout_with_a_generator_of_its_own():
    """Random, and tagged so, from a stream that checkpointing does not put back."""
    generator = torch.Generator().manual_seed(0)
    return _dropout(
        "dropout_with_a_generator_of_its_own",
        lambda x: torch.rand(x.shape, generator=generator, device=x.device),
    )


@specimen((MATRIX,), twin_of="dropout_with_a_generator_of_its_own")
def dropout_from_the_default_generator():
    """Random, and tagged so, from torch's own stream."""
    return _dropout(
        "dropout_from_the_default_generator", lambda x: torch.rand(x.shape, device=x.device)
    )


def _square(name, backward):
    """The square of the sine, both factors of which are saved."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return x.sin().square()

    square.register_fake(lambda x: torch.empty_like(x))
    square.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return square


@specimen((MATRIX,), expected={"backward.checkpoint": "checkpoint-mismatch"})
def saved_tensors_read_twice():
    """Reads ctx.saved_tensors twice, and checkpointing hands each tensor out once."""

    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0].sin() * ctx.saved_tensors[0].cos()

    return _square("saved_tensors_read_twice", backward)


@specimen((MATRIX,), twin_of="saved_tensors_read_twice")
def saved_tensors_read_once():
    """Reads ctx.saved_tensors once."""

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x.sin() * x.cos()

    return _square("saved_tensors_read_once", backward)
