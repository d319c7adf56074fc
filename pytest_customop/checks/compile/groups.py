"""Decide which cases share one compiled function that calls the op once for each of them.

A compiler takes much less time for one function with many calls than for many functions, above all where
C++ is generated. A group never decides a failure: where its function raises, or one of its cases differs
from eager mode, each case is compiled by itself.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ...cases.case import Case
from ...compat.compiler import GRAPHS_CAN_STAY

MOST_CASES = 16
# Of the tensors that the samples of a group give: all are kept at the same time.
_MOST_ELEMENTS = 2**20
Agreeing = Callable[[Sequence[Case]], Collection[Case]]


@dataclass(eq=False)
class _Family:
    """The groups of one mark that are alike; if one of them fails, the others do not run."""

    failed: bool = False


@dataclass(eq=False)
class _Group:
    """Cases that share a function.

    Args:
        members: the cases.
        agreed: those that agree with eager mode; None until the first of them asks.
    """

    family: _Family
    members: Sequence[weakref.ref[Case]]
    agreed: weakref.WeakSet[Case] | None = None

    def run(self, asking: Case, agreeing: Agreeing) -> weakref.WeakSet[Case]:
        """Run the group, and release all cases but the one that asks."""
        cases = [case for case in (member() for member in self.members) if case is not None]
        try:
            agreed = weakref.WeakSet(agreeing(cases))
        finally:
            for case in cases:
                if case is not asking:
                    case.release()
        return agreed


@dataclass(eq=False)
class Groups:
    """The groups of one check."""

    _groups: weakref.WeakKeyDictionary[Case, _Group] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def prepare(self, cases: Sequence[Case]) -> None:
        """Group the cases of one mark on which the check is going to run."""
        alike: dict[tuple[str, bool], list[Case]] = {}
        for case in sorted(cases, key=lambda one: one.id):
            if _can_share(case):
                alike.setdefault((case.backend, case.requires_grad), []).append(case)
        for found in alike.values():
            family = _Family()
            for part in _parts(found):
                group = _Group(family, [weakref.ref(case) for case in part])
                for case in part:
                    self._groups[case] = group

    def agrees(self, case: Case, agreeing: Agreeing) -> bool:
        """Whether the case agrees with eager mode in its group; False tells nothing.

        Args:
            agreeing: compiles one function for several cases, and returns those that agree.
        """
        group = self._groups.get(case)
        if group is None or len(group.members) < 2:
            return False
        if group.agreed is None:
            if group.family.failed:
                return False
            group.agreed = weakref.WeakSet()  # a case that the group runs does not start it again
            group.agreed = group.run(case, agreeing)
            group.family.failed = not group.agreed
        return case in group.agreed


def _can_share(case: Case) -> bool:
    """Whether the case may be in a group: on the CPU, where that was tried, and not a large one."""
    return GRAPHS_CAN_STAY and case.placement.device == "cpu" and _elements(case) <= _MOST_ELEMENTS


def _elements(case: Case) -> int:
    return sum(math.prod(leaf.shape) for _, leaf in case.sample_tensors())


def _parts(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases in order, in parts within the limits."""
    parts: list[list[Case]] = [[]]
    room = _MOST_ELEMENTS
    most = math.ceil(len(cases) / math.ceil(len(cases) / MOST_CASES))
    for case in cases:
        size = _elements(case)
        if parts[-1] and (size > room or len(parts[-1]) == most):
            parts.append([])
            room = _MOST_ELEMENTS
        parts[-1].append(case)
        room -= size
    return parts
