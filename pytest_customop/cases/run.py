"""One call of an op, and the gradients of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .arguments import Arguments
from .tensors import output_leaves


@dataclass(frozen=True, eq=False)
class Run:
    """One call of the op.

    Args:
        arguments: of the call, in their state after it.
        result: of the call.
        error: what the op raised instead of returning.
    """

    arguments: Arguments
    result: Any = None
    error: BaseException | None = None

    @property
    def outputs(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors that were returned, with names like `output` and `output 1[0]`."""
        return [
            (name, leaf)
            for name, leaf in output_leaves(self.result)
            if isinstance(leaf, torch.Tensor)
        ]

    @property
    def plain_outputs(self) -> list[tuple[str, Any]]:
        """The returned numbers and Nones, with names as in `outputs`."""
        return [
            (name, leaf)
            for name, leaf in output_leaves(self.result)
            if not isinstance(leaf, torch.Tensor)
        ]

    @property
    def differentiable_outputs(self) -> list[tuple[str, torch.Tensor]]:
        """The outputs that require gradients."""
        return [(name, leaf) for name, leaf in self.outputs if leaf.requires_grad]


def gradients(
    arguments: Arguments,
    outputs: list[tuple[str, torch.Tensor]],
    grad_outputs: list[torch.Tensor],
    **options: Any,
) -> dict[str, torch.Tensor | None]:
    """The vector-Jacobian product, by argument name; None where no gradient reaches an argument.

    Args:
        options: for `torch.autograd.grad`.
    """
    inputs = arguments.differentiable()
    grads = torch.autograd.grad(
        [tensor for _, tensor in outputs],
        [tensor for _, tensor in inputs],
        grad_outputs,
        allow_unused=True,
        **options,
    )
    return {name: gradient for (name, _), gradient in zip(inputs, grads, strict=True)}


def random_like(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Normally distributed values with the shape, strides, dtype and device of a tensor."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    wide = torch.complex128 if tensor.dtype.is_complex else torch.float64
    drawn = torch.randn(tensor.shape, generator=generator, dtype=wide)
    return torch.empty_like(tensor.detach()).copy_(drawn)
