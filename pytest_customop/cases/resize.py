"""The same op at other sizes: which sizes there are to change, and which the real op takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch

from ..core.tracebacks import error_line, reraise_bug
from ..declare.inputs import Sample
from ..findings import skip
from .case import Case

# Only growing: ops that do not check their arguments would read past the end of smaller ones.
_STEPS: tuple[Callable[[int], int], ...] = (
    lambda size: size + 1,
    lambda size: 2 * size,
    lambda size: 2 * size + 1,
)


@dataclass(frozen=True)
class Place:
    """One size of one tensor argument: at which dim of which argument (`pic`, `xs[1]`)."""

    argument: str
    dim: int
    size: int

    def __str__(self) -> str:
        return f"size {self.size} at dim {self.dim} of `{self.argument}`"


def places(case: Case) -> list[Place]:
    """Every size of at least 2 of the dense tensor arguments; 0 and 1 are special to torch."""
    return [
        Place(name, dim, size)
        for name, tensor in case.eager.arguments.tensors()
        if tensor.layout == torch.strided and not tensor.is_nested
        for dim, size in enumerate(tensor.shape)
        if size >= 2
    ]


def changeable(case: Case) -> list[Place]:
    """The places whose size can be changed, with all that equal it and may be tied to it.

    A size that some real tensor or some `values=` has stays: changing it elsewhere alone could give
    arguments that do not fit each other, and ops need not check that.
    """
    fixed = {place.size for place in _fixed(case)}
    return [place for place in places(case) if place.size not in fixed]


def resized_at(
    case: Case, changes: Mapping[Place, int], integers: Mapping[int, int] | None = None
) -> Case | None:
    """The case with the sizes at some places changed, whatever the real op says to that.

    Args:
        changes: the new size of each place.
        integers: numbers among the int arguments to change, and into what.

    Returns:
        None if a tensor cannot be drawn at another size, or would be unreasonably large.
    """
    by_key = {(place.argument, place.dim): size for place, size in changes.items()}
    if _elements(case, by_key) > max(4 * _elements(case, {}), 2**22):
        return None
    changed = case.resized(lambda name, dim, size: by_key.get((name, dim), size))
    return _with_integers(changed, integers) if changed is not None and integers else changed


def second_case(case: Case) -> Case:
    """The case at other sizes, on which the real op works.

    Every size of at least 2 is changed, equal ones together; if the op or its backward refuses
    that, as many of them as both take; if there are none, as the op alone takes. Int arguments that
    equal a changed size are left first, then changed with it.
    Its eager result is there and did not raise.

    Raises:
        CheckSkipped: `no-second-size`, if inputs cannot be drawn again or the op takes no other
            sizes.
    """
    if not places(case):
        raise skip(
            "no-second-size", "every size is 0 or 1: there is none to change", unjudged=False
        )
    movable = changeable(case)
    if not movable:
        raise skip("no-second-size", fixed_inputs(case))
    groups = _by_size(movable)
    refusals: list[str] = []
    found = None
    for accept in (_works_backward, _works):  # many kernels do not look whether sizes fit
        found = found or _accepted(case, groups, {}, {}, refusals, accept)
        found = found or _one_by_one(case, groups, refusals, accept)
    if found is None:
        raise skip(
            "no-second-size",
            f"the op takes no other size with these arguments; {len(refusals)} tried, the last: "
            f"{refusals[-1] if refusals else 'too large'}",
        )
    return found[0]


def fixed_inputs(case: Case) -> str:
    """Why sizes of the case cannot be changed, and the way out."""
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(p.argument for p in _fixed(case)))
    return (
        f"other sizes cannot be tried: those of {names} are fixed (a real tensor, or values=); "
        "describe it with tensor(shape)"
    )


def other_sizes(
    case: Case, groups: Iterable[Collection[Place]]
) -> Iterator[tuple[Collection[Place], Case]]:
    """One case for each group of places: these have another size, and the real op works.

    Args:
        groups: the places to change together, in the order in which to try them. The int arguments
            stay as they are.
    """
    for group in groups:
        for step in _STEPS:
            changed = resized_at(case, {place: step(place.size) for place in group})
            if changed is not None and changed.eager.error is None:
                yield group, changed
                break


def tied_integers(case: Case, changed: Case) -> Case | None:
    """`changed` with the int arguments that equal a changed size changed likewise; None if none."""
    before, after = (_shapes(one) for one in (case, changed))
    sizes = {old: after[key] for key, old in before.items() if old >= 2 and after[key] != old}
    wanted = {old: new for old, new in sizes.items() if old in whole_numbers(case)}
    return _with_integers(changed, wanted) if wanted else None


_Accepted = tuple[Case, dict[Place, int], dict[int, int]]


def _accepted(
    case: Case,
    groups: Collection[Collection[Place]],
    changes: Mapping[Place, int],
    integers: Mapping[int, int],
    refusals: list[str],
    accept: Callable[[Case], bool],
) -> _Accepted | None:
    """The first case that the op takes with these groups changed on top of earlier changes."""
    own = whole_numbers(case)
    kept = set(_shapes(case).values()) if len(groups) == 1 else set()
    kept |= set(changes.values())
    for tied, step in product((False, True), _STEPS):
        sizes = {place.size: step(place.size) for group in groups for place in group}
        numbers = {old: new for old, new in sizes.items() if tied and old in own}
        if (tied and not numbers) or kept & set(sizes.values()):
            continue  # nothing new, or a size that would look tied to another one
        wanted = dict(changes) | {place: sizes[place.size] for group in groups for place in group}
        both = {**integers, **numbers}
        changed = resized_at(case, wanted, both)
        if changed is None:
            continue
        if accept(changed):
            return changed, wanted, both
        if changed.eager.error is not None:
            refusals.append(_refusal(changed, changed.eager.error))
    return None


def _works(case: Case) -> bool:
    return case.eager.error is None


def _works_backward(case: Case) -> bool:
    try:
        return _works(case) and case.eager_gradients is not None
    except Exception as error:  # whatever a backward raises
        reraise_bug(error)
        return False


def _one_by_one(
    case: Case,
    groups: Collection[Collection[Place]],
    refusals: list[str],
    accept: Callable[[Case], bool],
) -> _Accepted | None:
    """The case with as many sizes changed as the op takes, one size after the other."""
    best: _Accepted | None = None
    for group in groups:
        for part in (group, *([place] for place in group if len(group) > 1)):
            _, changes, integers = best or (case, {}, {})
            found = _accepted(case, [part], changes, integers, refusals, accept)
            best = found or best
            if found and part is group:
                break
    return best


def _by_size(among: Iterable[Place]) -> list[list[Place]]:
    groups: dict[int, list[Place]] = {}
    for place in among:
        groups.setdefault(place.size, []).append(place)
    return [groups[size] for size in sorted(groups)]


def _fixed(case: Case) -> list[Place]:
    """The places of tensors that cannot be drawn at another size."""
    return [place for place in places(case) if case.resized(partial(_bumped, place)) is None]


def _bumped(place: Place, name: str, dim: int, size: int) -> int:
    return size + 1 if (name, dim) == (place.argument, place.dim) else size


def _shapes(case: Case) -> dict[tuple[str, int], int]:
    return {
        (name, dim): size
        for name, tensor in case.eager.arguments.tensors()
        if tensor.layout == torch.strided
        for dim, size in enumerate(tensor.shape)
    }


def _elements(case: Case, changes: Mapping[tuple[str, int], int]) -> int:
    """How many elements the dense arguments have, with some sizes changed."""
    counts: dict[str, int] = {}
    for (name, dim), size in _shapes(case).items():
        counts[name] = counts.get(name, 1) * changes.get((name, dim), size)
    return sum(counts.values())


def whole_numbers(case: Case) -> set[int]:
    """The plain whole numbers among the arguments."""
    return {
        value
        for _, value in case.eager.arguments.named()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _with_integers(case: Case, changes: Mapping[int, int]) -> Case:
    sample = case.sample
    args = tuple(_replaced(value, changes) for value in sample.args)
    kwargs = {name: _replaced(value, changes) for name, value in sample.kwargs.items()}
    return replace(case, sample=Sample(args, kwargs, sample.id))


def _replaced(value: Any, changes: Mapping[int, int]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(element, changes) for element in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return changes.get(value, value)
    return value


def _refusal(case: Case, error: BaseException) -> str:
    shapes = ", ".join(
        f"{name} {tuple(tensor.shape)}" for name, tensor in case.eager.arguments.tensors()
    )
    return f"{shapes} raises {error_line(error)}"
