"""Ops of this package that surround the op: producers and consumers.

Compilers generate no kernel for them, so they cost almost nothing, work in every dtype, and read the
memory of the op's outputs by the strides that its fake kernel returns.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.testing import make_tensor


@functools.cache
def opaque_ops() -> tuple[Any, Any]:
    """Two ops that copy: one keeps the strides of a dense tensor, the other returns a contiguous one.

    The other reads a view with one more dim in front, and returns a tensor without it.
    """
    ops = torch.ops.pytest_customop
    signature = "(Tensor x) -> Tensor"

    @torch.library.custom_op("pytest_customop::produce", mutates_args=(), schema=signature)
    def produce(x: torch.Tensor) -> torch.Tensor:
        return _empty_twin(x).copy_(x)

    produce.register_fake(_empty_twin)

    def keep_none(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    def read(ctx: Any, grad: torch.Tensor | None) -> torch.Tensor | None:
        # Like a consumer, it reads by the strides that fake kernels return.
        return None if grad is None else ops.consume(grad.unsqueeze(0))

    produce.register_autograd(read, setup_context=keep_none)

    # It has no gradients, so it needs none of custom_op's layers, which cost time in each trace.
    torch.library.define("pytest_customop::consume", signature)
    torch.library.impl("pytest_customop::consume", "default", _contiguous_copy)
    torch.library.register_fake("pytest_customop::consume", lambda x: x.new_empty(x.shape[1:]))
    return ops.produce.default, ops.consume.default


@functools.cache
def opaque_list_ops() -> tuple[Any, Any]:
    """The same two for many tensors, which are traced and compiled as one call."""
    ops = torch.ops.pytest_customop
    signature = "(Tensor[] xs) -> Tensor[]"

    @torch.library.custom_op("pytest_customop::produce_all", mutates_args=(), schema=signature)
    def produce_all(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [_empty_twin(x).copy_(x) for x in xs]

    produce_all.register_fake(lambda xs: [_empty_twin(x) for x in xs])

    def keep_none(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    def read(ctx: Any, grads: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        consumed = iter(ops.consume_all([grad.unsqueeze(0) for grad in grads if grad is not None]))
        return [None if grad is None else next(consumed) for grad in grads]

    produce_all.register_autograd(read, setup_context=keep_none)

    torch.library.define("pytest_customop::consume_all", signature)
    torch.library.impl(
        "pytest_customop::consume_all", "default", lambda xs: [_contiguous_copy(x) for x in xs]
    )
    torch.library.register_fake(
        "pytest_customop::consume_all", lambda xs: [x.new_empty(x.shape[1:]) for x in xs]
    )
    return ops.produce_all.default, ops.consume_all.default


def call_an_op() -> None:
    """Call an op of this package and its backward once: torch imports most of itself at its first call."""
    produce, _ = opaque_ops()
    x = make_tensor(2, dtype=torch.float32, device="cpu", requires_grad=True)
    produce(x).sum().backward()


def _contiguous_copy(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(0).clone(memory_format=torch.contiguous_format)


def _empty_twin(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
