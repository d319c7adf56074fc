"""Variants of lists among the arguments: of dims, and with one element only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...declare.variant import Step
from .sample_view import SampleView


def dims(name: str, value: Sequence[int], count: int) -> Iterator[Step]:
    """A list of dims counted the other way, and every dim.

    Args:
        name: of the argument.
        value: the dims that the sample gives, or the default.
        count: the most dims of a tensor of the sample.
    """
    if not all(type(each) is int and -count <= each < count for each in value):
        return
    other = [each - count if each >= 0 else each + count for each in value]
    description = f"{name}={other}, the same dims counted the other way"
    yield Step(f"{name}.negated", description, {name: other}, 1, True)
    every = [*range(count)]
    if sorted(each % count for each in value) != every:
        yield Step(f"{name}.all", f"{name}={every}", {name: every}, 6, True)


def reversed_order(name: str, value: Sequence[int]) -> Iterator[Step]:
    """An order, as 0, 1, 2, in reverse. In other lists the place of a number has a meaning."""
    if len(value) > 1 and sorted(value) == [*range(len(value))]:
        other = type(value)(reversed(value))  # type: ignore[call-arg]
        yield Step(f"{name}.reversed", f"{name}={other}, the reverse order", {name: other}, 3, True)


def single(view: SampleView, name: str) -> Step:
    """A list with its first element only."""
    beyond = None if _may_shrink(view, name) else "one list shorter than in the sample"
    description = f"{name} with its first element only"
    change = {name: view.given[name][:1]}
    return Step(f"{name}.single", description, change, 7, reads_beyond=True, beyond=beyond)


def _may_shrink(view: SampleView, name: str) -> bool:
    """Whether a list holds tensors whose number the other arguments do not repeat.

    The length of a list of numbers is mostly a number of dims.
    """
    given = view.given[name]
    count = len(given)
    inside = [each for each in view.tensors if each.path.startswith(f"{name}[")]
    others = [value for key, value in view.given.items() if key != name]
    lists = [value for value in others if isinstance(value, (list, tuple))]
    sizes = {size for each in view.tensors if each not in inside for size in each.shape}
    repeated = any(len(each) == count for each in lists) or count in sizes or count in _ints(others)
    return len(inside) == count and not repeated


def _ints(values: Iterable[Any]) -> set[int]:
    return {value for value in values if isinstance(value, int) and not isinstance(value, bool)}
