"""Choose the sizes of a case to change together."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.resize import Place, changeable, places, whole_numbers
from .specialization import Pin


def groups_of_pin(case: Case, pin: Pin) -> list[tuple[Place, ...]]:
    """The sizes to change together: all that equal a constant, then the constants only, then each alone."""
    movable = changeable(case)
    pinned = [place for place in movable if place in pin.places]
    groups: list[tuple[Place, ...]] = []
    for size in sorted({place.size for place in pinned}):
        groups.append(tuple(place for place in movable if place.size == size))
        groups.append(tuple(place for place in pinned if place.size == size))
    groups += [(place,) for place in pinned]
    return list(dict.fromkeys(groups))


def dims_of_squares(case: Case) -> list[tuple[Place, ...]]:
    """For each size that several dims share, the places of each such dim.

    Sizes to which something else may be tied are left out: every tensor with the size must have it at
    the same dims, and no int argument may equal it.
    """
    groups = []
    for size in sorted({place.size for place in changeable(case)} - whole_numbers(case)):
        dims: dict[str, set[int]] = {}
        same = [place for place in places(case) if place.size == size]
        for place in same:
            dims.setdefault(place.argument, set()).add(place.dim)
        shared = next(iter(dims.values()))
        if len(shared) > 1 and all(shared == argument_dims for argument_dims in dims.values()):
            groups += [tuple(place for place in same if place.dim == dim) for dim in sorted(shared)]
    return groups
