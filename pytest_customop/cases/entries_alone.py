"""Find out whether each entry of a list of positions gives the same alone as among all entries."""

from __future__ import annotations

import torch

from .arguments import Arguments
from .case import Case
from .tensors import base_name, difference

_MOST = 8  # entries that are called alone


def entries_stand_alone(case: Case) -> bool:
    """Whether the results for entries are the same if the op is called with each of them alone.

    Then positions may repeat, whatever the sample shows: the op means the same for them as for single
    ones, and its gradient is the sum of theirs. The op is called.

    Args:
        case: a variant with other positions.
    """
    changed = base_name((case.variant or "").partition(".")[0])
    tensors = dict(case.inputs().tensors())
    if changed not in tensors or tensors[changed].dim() != 1 or case.eager.error is not None:
        return False
    count = len(tensors[changed])
    listed = [name for name, tensor in tensors.items() if tensor.shape[:1] == (count,)]
    positions = [name for name in listed if not tensors[name].is_floating_point()]
    if count < 2 or (len(positions) < len(listed) and _have_permutation(case, positions)):
        return False
    return any(_stand_alone(case, names, count) for names in (positions, listed))


def _have_permutation(case: Case, names: list[str]) -> bool:
    """Whether the sample has a permutation in one of some tensors, which a variant may have changed."""
    sample = dict((case.base_case or case).inputs().tensors())
    return any(
        torch.equal(sample[name].sort().values, torch.arange(len(sample[name])))
        for name in names
        if name in sample and sample[name].dim() == 1
    )


def _stand_alone(case: Case, names: list[str], count: int) -> bool:
    """The same for entries that take a number of each of some tensors."""
    outputs = [output.detach() for _, output in case.eager.outputs]
    if not outputs or any(output.shape[:1] != (count,) for output in outputs):
        return False
    for entry in range(min(count, _MOST)):
        alone = case.run(_entry(case, names, entry))
        if alone.error is not None or len(alone.outputs) != len(outputs):
            return False
        for output, (_, single) in zip(outputs, alone.outputs, strict=True):
            if difference(single.detach(), output[entry : entry + 1]) is not None:
                return False
    return True


def _entry(case: Case, names: list[str], entry: int) -> Arguments:
    """The arguments with one entry of some tensors."""

    def taken(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()[entry : entry + 1].clone() if name in names else tensor

    return case.inputs().map_distinct(taken)
