"""Decide which cases share one compiled function that calls the op once for each of them.

A compiler takes much less time for one function with many calls than for many functions, above all if it
generates C++. A group never decides a failure: if its function raises, or one of its cases differs from
eager mode, each case is compiled by itself.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ...cases.case import Case
from ...cases.crash_risk import crash_risk
from ...compat.compiler import GRAPHS_CAN_STAY

MOST_CASES = 16
# Of all tensors in a group's samples, because they are kept at the same time.
_MOST_ELEMENTS = 2**20
Agreeing = Callable[[Sequence[Case]], Collection[Case]]


@dataclass(eq=False)
class _Family:
    """Similar groups of one mark; if one of them fails, the others do not run."""

    failed: bool = False


@dataclass(eq=False)
class _Group:
    """Cases that share a function.

    Args:
        members: the cases.
        agreed: the cases that agree with eager mode; None until the first of them needs it.
    """

    family: _Family
    members: Sequence[weakref.ref[Case]]
    agreed: weakref.WeakSet[Case] | None = None

    def agrees(self, case: Case, agreeing: Agreeing) -> bool:
        """Whether the case agrees with eager mode in this group. False means undecided."""
        if len(self.members) < 2 or (self.agreed is None and self.family.failed):
            return False
        if self.agreed is None:
            # A case that is run by the group does not start it again.
            self.agreed = weakref.WeakSet()
            self.agreed = self._run(case, agreeing)
            self.family.failed = not self.agreed
        return case in self.agreed

    def _run(self, asking: Case, agreeing: Agreeing) -> weakref.WeakSet[Case]:
        """Run the group, and release all cases but the asking one."""
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
    """The groups of one check: for each case, those across marks first, then those of its own mark."""

    _groups: weakref.WeakKeyDictionary[Case, list[_Group]] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def prepare(self, marks: Sequence[Sequence[Case]]) -> None:
        """Group the cases on which the check is going to run.

        Args:
            marks: the cases of each mark; those of small marks may run together.
        """
        together: dict[tuple[str, bool], list[list[Case]]] = {}
        by_mark: list[list[Case]] = []
        for cases in marks:
            alike: dict[tuple[str, bool], list[Case]] = {}
            for case in sorted(cases, key=lambda case: case.id):
                if _can_share(case):
                    alike.setdefault((case.backend, case.requires_grad), []).append(case)
            for key, members in alike.items():
                by_mark.append(members)
                if crash_risk(members[0].op, members[0].placement.device) is None:
                    together.setdefault(key, []).append(members)
        for several in together.values():
            for part in _parts(several):
                if len(part) > 1:
                    self._add(_Family(), [case for cases in part for case in cases])
        for cases in by_mark:
            family = _Family()
            for part in _parts([[case] for case in cases]):
                self._add(family, [case for (case,) in part])

    def _add(self, family: _Family, cases: Sequence[Case]) -> None:
        group = _Group(family, [weakref.ref(case) for case in cases])
        for case in cases:
            self._groups.setdefault(case, []).append(group)

    def has(self, case: Case) -> bool:
        """Whether the case is in a group with others."""
        return any(len(group.members) > 1 for group in self._groups.get(case, ()))

    def agreed(self, case: Case) -> bool:
        """Whether a group of the case has run, and the case agreed with eager mode in it."""
        groups = self._groups.get(case, ())
        return any(group.agreed is not None and case in group.agreed for group in groups)

    def agrees(self, case: Case, agreeing: Agreeing) -> bool:
        """Whether the case agrees with eager mode in one of its groups. False means undecided.

        Args:
            agreeing: compiles one function for several cases, and returns those that agree.
        """
        return any(group.agrees(case, agreeing) for group in self._groups.get(case, ()))


def _can_share(case: Case) -> bool:
    """Whether the case may be in a group: it is on the CPU, the only device tried, and not large."""
    return GRAPHS_CAN_STAY and case.placement.device == "cpu" and _elements(case) <= _MOST_ELEMENTS


def _elements(case: Case) -> int:
    return sum(math.prod(leaf.shape) for _, leaf in case.sample_tensors())


def _parts(units: Sequence[Sequence[Case]]) -> list[list[Sequence[Case]]]:
    """The units, in order, split into parts within the limits."""
    parts: list[list[Sequence[Case]]] = [[]]
    count = size = 0
    for unit in units:
        more = sum(map(_elements, unit))
        if parts[-1] and (count + len(unit) > MOST_CASES or size + more > _MOST_ELEMENTS):
            parts.append([])
            count = size = 0
        parts[-1].append(unit)
        count, size = count + len(unit), size + more
    return parts
