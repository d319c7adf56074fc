"""Find out whether an op ignores what a variant adds to a size: it may be made for the sample's size."""

from __future__ import annotations

import torch

from .case import Case
from .run import Run
from .tensors import same_bits

_MOST = 4  # a size that an op may be made for: coordinates, the corners of a box


def ignores_added_elements(case: Case) -> bool:
    """Whether a small dim of a tensor is larger than in the sample, and the op ignores what was added.

    `[:, 0]` and `[:, 1]` of points with two coordinates also work on points with three. The op is called.
    """
    if case.base_case is None:
        return False
    before = dict(case.base_case.inputs().tensors())
    return any(
        _counts_for_nothing(case, name, dim, before[name].shape[dim])
        for name, tensor in case.inputs().tensors()
        if name in before and before[name].dim() == tensor.dim()
        if tensor.is_floating_point() and tensor.numel() > 0
        for dim, size in enumerate(tensor.shape)
        if before[name].shape[dim] < size and 2 <= before[name].shape[dim] <= _MOST
    )


def _counts_for_nothing(case: Case, name: str, dim: int, size: int) -> bool:
    """Whether the results stay the same with other values in the elements from `size` on."""

    def replaced(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path != name:
            return tensor
        changed = tensor.detach().clone()
        rest = changed.narrow(dim, size, changed.shape[dim] - size)
        rest.copy_(rest.flip(dim).neg())
        return changed

    first, second = case.run(case.inputs()), case.run(case.inputs().map_distinct(replaced))
    return bool(first.outputs) and second.error is None and _agree(first, second)


def _agree(first: Run, second: Run) -> bool:
    pairs = zip(first.outputs, second.outputs, strict=False)
    return all(same_bits(left.detach(), right.detach()) for (_, left), (_, right) in pairs)
