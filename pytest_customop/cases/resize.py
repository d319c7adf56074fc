"""The same case at other sizes: which sizes can change, and which of them the real op accepts."""

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
from .arguments import dtype_of
from .case import Case
from .documented_shapes import is_number_in_text
from .template import counted_sizes, described, sizes_besides

# Why a case leaves what the sample shows.
UNTIED = "sizes that are equal in the sample differ"
# Sizes only grow: an op that does not check its arguments would read past the end of smaller ones.
_STEPS: tuple[Callable[[int], int], ...] = (
    lambda size: size + 1,
    lambda size: 2 * size,
    lambda size: 2 * size + 1,
)


@dataclass(frozen=True)
class Place:
    """One size of one tensor argument (`pic`, `xs[1]`)."""

    argument: str
    dim: int
    size: int

    def __str__(self) -> str:
        return f"size {self.size} at dim {self.dim} of `{self.argument}`"


def places(case: Case) -> list[Place]:
    """Every size of the dense tensor arguments that is at least 2: torch treats 0 and 1 specially."""
    return [
        Place(name, dim, size)
        for name, tensor in case.eager.arguments.tensors()
        if tensor.layout == torch.strided and not tensor.is_nested
        for dim, size in enumerate(tensor.shape)
        if size >= 2
    ]


def changeable(case: Case) -> list[Place]:
    """The places whose size can be changed together with all equal sizes.

    If a tensor cannot be drawn again, its sizes stay everywhere: otherwise the arguments might not fit each
    other, and ops need not check that. Sizes that its numbers may refer to stay too, and those that a
    docstring gives as numbers.
    """
    fixed = {place.size for place in _fixed(case)} | _counted(case)
    return [
        place
        for place in places(case)
        if place.size not in fixed and not is_documented(case, place)
    ]


def resized_at(
    case: Case, changes: Mapping[Place, int], integers: Mapping[int, int] | None = None
) -> Case | None:
    """The case with the sizes at some places changed; the op may reject it.

    Args:
        changes: the new size of each place.
        integers: old -> new value of int arguments.

    Returns:
        The case; its `beyond` is set if sizes that were equal now differ. None if a tensor cannot be drawn
        at another size, or if the tensors would be too large.
    """
    by_key = {(place.argument, place.dim): size for place, size in changes.items()}
    if _elements(case, by_key) > max(4 * _elements(case, {}), 2**22):
        return None
    changed = case.resized(lambda name, dim, size: by_key.get((name, dim), size))
    if changed is None:
        return None
    became: dict[int, set[int]] = {}
    for key, size in _shapes(case).items():
        if not is_number_in_text(case.op, *key, size):
            became.setdefault(size, set()).add(by_key.get(key, size))
    if case.beyond is None and any(len(sizes) > 1 for sizes in became.values()):
        changed = replace(changed, beyond=UNTIED)
    return _with_integers(changed, integers) if integers else changed


def second_case(case: Case) -> Case:
    """The case at other sizes on which the real op works.

    All sizes of at least 2 are changed, equal ones together. If the op or its backward rejects that, as
    many sizes are changed as both accept, or, if there are none, as the op alone accepts. Int arguments
    that equal a changed size are first kept, then changed with it. The eager result of the returned case
    has been computed without an error.

    Raises:
        CheckSkipped: `no-second-size`, if inputs cannot be drawn again or the op accepts no other size.
    """
    if not places(case):
        raise skip(
            "no-second-size", "every size is 0 or 1: there is none to change", unjudged=False
        )
    movable = changeable(case)
    if not movable:
        raise skip("no-second-size", fixed_inputs(case))
    groups = _by_size(movable)
    rejections: list[str] = []
    accepted = None
    for accept in (_works_backward, _works):  # many kernels do not check whether sizes fit
        accepted = accepted or _accepted(case, groups, {}, {}, rejections, accept)
        accepted = accepted or _one_by_one(case, groups, rejections, accept)
    if accepted is None:
        raise skip(
            "no-second-size",
            f"the op takes no other size with these arguments; {len(rejections)} tried, the last: "
            f"{rejections[-1] if rejections else 'too large'}",
        )
    return accepted[0]


def fixed_inputs(case: Case) -> str:
    """Why sizes of the case cannot be changed, and what to do about it."""
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(p.argument for p in _fixed(case)))
    return (
        f"other sizes cannot be tried: {names} is given by its values, which are integers that "
        "count or order something; describe it with tensor(shape, dtype=, low=, high=), or give a "
        "sample of other sizes"
    )


def other_sizes(
    case: Case,
    groups: Iterable[Collection[Place]],
    of_use: Callable[[Case], bool] = lambda changed: True,
) -> Iterator[tuple[Collection[Place], Case]]:
    """For each group of places, the case with another size there, if the real op works on it.

    Args:
        groups: the places to change together. Int arguments stay as they are.
        of_use: (case) -> whether the caller can use it.
    """
    for group in groups:
        for step in _STEPS:
            changed = resized_at(case, {place: step(place.size) for place in group})
            if changed is not None and of_use(changed) and changed.eager.error is None:
                yield group, changed
                break


def tied_integers(case: Case, changed: Case) -> Case | None:
    """`changed`, with int arguments that equal a changed size changed too; None if there are none."""
    before, after = (_shapes(item) for item in (case, changed))
    sizes = {old: after[key] for key, old in before.items() if old >= 2 and after[key] != old}
    integers = {old: new for old, new in sizes.items() if old in whole_numbers(case)}
    return _with_integers(changed, integers) if integers else None


_Accepted = tuple[Case, dict[Place, int], dict[int, int]]


def _accepted(
    case: Case,
    groups: Collection[Collection[Place]],
    changes: Mapping[Place, int],
    integers: Mapping[int, int],
    rejections: list[str],
    accept: Callable[[Case], bool],
) -> _Accepted | None:
    """The first case that `accept` accepts, with these groups changed in addition to `changes`."""
    case_numbers = whole_numbers(case)
    kept = set(_shapes(case).values()) if len(groups) == 1 else set()
    kept |= set(changes.values())
    for tied, step in product((False, True), _STEPS):
        sizes = {place.size: step(place.size) for group in groups for place in group}
        numbers = {old: new for old, new in sizes.items() if tied and old in case_numbers}
        if (tied and not numbers) or kept & set(sizes.values()):
            continue  # nothing new, or a size that would look tied to another
        all_changes = dict(changes) | {
            place: sizes[place.size] for group in groups for place in group
        }
        all_integers = {**integers, **numbers}
        changed = resized_at(case, all_changes, all_integers)
        if changed is None:
            continue
        if accept(changed):
            return changed, all_changes, all_integers
        if changed.eager.error is not None:
            rejections.append(_rejection(changed, changed.eager.error))
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
    rejections: list[str],
    accept: Callable[[Case], bool],
) -> _Accepted | None:
    """The case with as many sizes changed as `accept` accepts, one size after the other."""
    best: _Accepted | None = None
    for group in groups:
        for part in (group, *([place] for place in group if len(group) > 1)):
            _, changes, integers = best or (case, {}, {})
            accepted = _accepted(case, [part], changes, integers, rejections, accept)
            best = accepted or best
            if accepted and part is group:
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


def _counted(case: Case) -> set[int]:
    """The sizes of other tensors that integers listed by the author may refer to."""
    sizes: set[int] = set()
    tensors = case.sample_tensors()
    shapes = {path: tuple(leaf.shape) for path, leaf in tensors}
    for path, leaf in tensors:
        spec = described(leaf, case.placement) if isinstance(leaf, torch.Tensor) else leaf
        if spec is not None:
            counted = counted_sizes(spec, dtype_of(spec, case.placement.dtype))
            sizes |= counted & sizes_besides(path, shapes)
    return sizes


def is_documented(case: Case, place: Place) -> bool:
    """Whether a docstring gives the size as a number."""
    return is_number_in_text(case.op, place.argument, place.dim, place.size)


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
    """The int arguments of the case."""
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


def _rejection(case: Case, error: BaseException) -> str:
    shapes = ", ".join(
        f"{name} {tuple(tensor.shape)}" for name, tensor in case.eager.arguments.tensors()
    )
    return f"{shapes} raises {error_line(error)}"
