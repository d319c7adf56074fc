"""The batch of several calls of an op, for torch.vmap and for a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...cases.arguments import Arguments, draw
from ...cases.case import Case

Tensors = list[torch.Tensor]
Dims = tuple["int | None", ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """The tensors of several calls.

    Args:
        calls: the arguments of each call.
        tensors: the tensor arguments of all calls stacked, in order.
    """

    calls: Sequence[Arguments]
    tensors: Tensors

    @staticmethod
    def of(case: Case) -> Batch:
        """A batch whose size no argument has; each call has other values if the op works with them."""
        sizes = {size for _, tensor in case.eager.arguments.tensors() for size in tensor.shape}
        count = next(size for size in (2, 3, 5, 4) if size not in sizes or size == 4)
        drawn = [case.inputs()] + [_another(case, index) for index in range(1, count)]
        calls = [call.map(lambda tensor: tensor.detach()) for call in drawn]
        columns = zip(*[[tensor for _, tensor in call.tensors()] for call in calls], strict=True)
        return Batch(calls, [torch.stack(column) for column in columns])

    def call(self, index: int, dims: Dims) -> Arguments:
        """The arguments of one call; tensors that are not batched come from the first call."""
        pairs = zip(self.calls[0].tensors(), self.calls[index].tensors(), dims, strict=True)
        chosen = iter(
            [(first if dim is None else tensor).clone() for (_, first), (_, tensor), dim in pairs]
        )
        return self.calls[0].map(lambda _: next(chosen))


def _another(case: Case, index: int) -> Arguments:
    """Other values in the same shapes: drawn again, or the given values in another order."""
    drawn = draw(case.op, case.sample, case.placement, case.seed + index)
    first = [tensor for _, tensor in case.inputs().tensors()]
    moved = iter(
        [
            _rolled(redrawn, index) if torch.equal(redrawn, tensor) else redrawn
            for tensor, (_, redrawn) in zip(first, drawn.tensors(), strict=True)
        ]
    )
    arguments = drawn.map(lambda _: next(moved))
    same = [(tensor.shape, tensor.dtype) for tensor in first]
    fits = [(tensor.shape, tensor.dtype) for _, tensor in arguments.tensors()] == same
    return arguments if fits and _works_alike(case, arguments) else case.inputs()


def _rolled(tensor: torch.Tensor, by: int) -> torch.Tensor:
    return tensor.detach().flatten().roll(by).reshape(tensor.shape)


def _works_alike(case: Case, arguments: Arguments) -> bool:
    """Whether the op works on these arguments, with outputs of the same shapes."""
    run = case.run(arguments.map(lambda tensor: tensor.detach().clone()))
    shapes = [(name, tensor.shape) for name, tensor in run.outputs]
    return run.error is None and shapes == [(name, leaf.shape) for name, leaf in case.eager.outputs]
