"""Find out whether each entry of a list of positions gives the same alone as among all entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..cases.case import Case
from ..cases.crash_risk import may_crash
from ..cases.template import is_permutation
from ..cases.tensors import base_name
from ..checks.relations.entries.alone import AloneEntries
from ..checks.relations.entries.groups import DimGroup
from ..checks.values.memory.calls import results


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
    # A table that has as many rows by chance must stay whole for a kernel that trusts positions.
    groups = [positions] if may_crash(case) else [positions, listed]
    plain = replace(case, placement=replace(case.placement, requires_grad=False))
    return any(_stand_alone(plain, names, count) for names in groups)


def _have_permutation(case: Case, names: Sequence[str]) -> bool:
    """Whether the sample has a permutation in one of some tensors, which a variant may have changed."""
    sample = dict((case.base_case or case).inputs().tensors())
    return any(is_permutation(sample[name].cpu()) for name in names if name in sample)


def _stand_alone(case: Case, names: Sequence[str], count: int) -> bool:
    """The same for entries that take a number of each of some tensors."""
    alone = AloneEntries(case, DimGroup(tuple((name, 0) for name in names), count, 1))
    every = {name for name, _ in results(case.eager)}
    is_each = alone.each_is_taken and {*alone.along} == every
    return is_each and alone.wrong(range(alone.count)) is None
