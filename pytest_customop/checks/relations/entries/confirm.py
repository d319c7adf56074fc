"""Whether a relation that an op has at a small size, and lacks at a larger one, is a defect of the op.

If that depends on the values, there are other reasons: a norm that is clipped from some magnitude on, or
results that amplify roundings. So the relation must be lacking for other values too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.tensors import is_differentiable, is_plain
from ...values.memory.perturb import ROUNDINGS
from ...values.memory.poison import ALL_NAN, fresh_memory_filled, has_new_nan
from .calls import Rearranged, Wrong, gap
from .groups import DimGroup

# Calls of the op on entries of a case -> what is wrong.
Violation = Callable[[Rearranged], Wrong | None]

_MOVES = 3
_BELOW = 0.25  # the sample may be near to a limit
_TIMES = 16  # roundings of the inputs show the largest change by chance only


def is_confirmed(case: Case, group: DimGroup, violation: Violation, wrong: Wrong) -> bool:
    """Whether a relation is lacking for other values too, beyond what roundings explain.

    Args:
        case, group: where it is lacking.
        violation: looks for it again.
        wrong: what was found.
    """
    if _amplifies_roundings(case, group, wrong) or _shows_fresh_memory(case, group, wrong.name):
        return False
    return all(
        repeated is not None and repeated.name == wrong.name
        for repeated in map(violation, _elsewhere(case, group, wrong))
    )


def _amplifies_roundings(case: Case, group: DimGroup, wrong: Wrong) -> bool:
    """Whether inputs moved by roundings change the result about as much."""
    base = Rearranged(case, group).whole
    spread = 0.0
    for change in ROUNDINGS[:_MOVES]:
        moved = Rearranged(case, group, partial(change.apply, case.inputs())).whole
        if base is None or moved is None or wrong.name not in base.keys() & moved.keys():
            return True
        spread = max(spread, gap(moved[wrong.name], base[wrong.name]))
    return gap(wrong.actual, wrong.expected) <= _TIMES * spread


def _shows_fresh_memory(case: Case, group: DimGroup, name: str) -> bool:
    """Whether the result has unwritten memory in it, which `values.uninitialized` reports."""
    base = Rearranged(case, group).whole
    if base is None or not isinstance(base.get(name), torch.Tensor):
        return False
    with fresh_memory_filled((), ALL_NAN, device=base[name].device.type):
        filled = (Rearranged(case, group).whole or {}).get(name)
    return isinstance(filled, torch.Tensor) and has_new_nan(filled, base[name])


def _elsewhere(case: Case, group: DimGroup, wrong: Wrong) -> Iterator[Rearranged]:
    """Calls with the same values once more, since a difference by chance does not recur, and with others.

    The others are redrawn; the last ones also have a smaller norm than few entries have.
    """
    yield Rearranged(case, group)
    redrawn = replace(case, seed=case.seed + 1)
    yield Rearranged(redrawn, group)
    if isinstance(wrong.expected, torch.Tensor) and is_differentiable(wrong.expected.dtype):
        share = group.trusted / group.size
        wide = Rearranged(redrawn.widened(), group)  # smaller numbers differ by less
        of_use = redrawn.widened() if wide.whole is not None else redrawn
        yield Rearranged(
            of_use, group, lambda: _mapped(of_use, lambda tensor: _scaled(tensor, share))
        )


def _mapped(case: Case, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """The arguments with other values in all floating-point tensors."""

    def changed(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() and is_plain(tensor) and tensor.numel()):
            return tensor
        value = torch.empty_like(tensor.detach()).copy_(change(tensor.detach()))
        return value.requires_grad_(tensor.requires_grad)

    return case.inputs().map_distinct(changed)


def _scaled(tensor: torch.Tensor, share: float) -> torch.Tensor:
    """Numbers moved towards 0, or towards the one nearest to 0, so that they add up to less than few did.

    The sum of numbers of both signs grows with the square root of their count.
    """
    low, high = (float(value) for value in torch.aminmax(tensor))
    centre = 0.0 if low <= 0.0 <= high else (low if low > 0 else high)
    factor = _BELOW * (math.sqrt(share) if low < 0 < high else share)
    return centre + (tensor - centre) * factor
