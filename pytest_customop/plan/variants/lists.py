"""Variants of lists among the arguments: other dims, another order, more parts, only one element."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.wording import listed
from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument

_OTHERS = "integers of another argument"
_UNSHAPED = "a list of a length that the sample does not show"
# The values in place of None, by the type of the list.
_GIVEN: Mapping[str, list[Any]] = {
    "List[float]": [0.5, 1.5, 0.75, 1.25, 2.5],
    "List[bool]": [True, False, True, False, True],
    "List[int]": [2, 1, 3, 2, 4],
    "List[SymInt]": [2, 1, 3, 2, 4],
}
_ORDERED = "tensors in another order than the entries that another tensor may have for each"


def dims(name: str, value: Sequence[int], count: int) -> Iterator[Step]:
    """A list of dims counted the other way, and a list of every dim.

    Args:
        name: of the argument.
        value: the dims that the sample gives, or the default.
        count: the most dims of a tensor of the sample.
    """
    if not all(type(dim) is int and -count <= dim < count for dim in value):
        return
    negated = [dim - count if dim >= 0 else dim + count for dim in value]
    description = f"{name}={negated}, the same dims counted the other way"
    yield Step(f"{name}.negated", description, {name: negated}, 1, True)
    all_dims = [*range(count)]
    if sorted(dim % count for dim in value) != all_dims:
        yield Step(f"{name}.all", f"{name}={all_dims}", {name: all_dims}, 6, True)


def given(view: SampleView, name: str, of_type: str, is_dim: bool) -> Iterator[Step]:
    """A list in place of None: one dim and every dim, or a few numbers and one number per dim.

    Args:
        name: of the argument.
        of_type: in the schema.
        is_dim: whether it is named like a list of dims.
    """
    count = max((len(tensor.shape) for tensor in view.tensors), default=0)
    if is_dim:
        choices = [[-1], [0], [*range(count)]] if count else []
    else:
        pattern = _GIVEN[of_type]
        choices = [pattern[:length] for length in dict.fromkeys((2, count, 3, 1)) if length]
    # Native code may not check how many there are.
    beyond = _UNSHAPED if view.may_read_outside and not is_dim else None
    for values in choices:
        step = f"{name}.{'_'.join(map(str, values))}"
        description = f"{name}={values}"
        yield Step(step, description, {name: values}, 4, reads_beyond=True, beyond=beyond)


def reversed_order(name: str, value: Sequence[int]) -> Iterator[Step]:
    """An order, such as 0, 1, 2, in reverse. In other lists the position of a number has a meaning."""
    if len(value) > 1 and sorted(value) == [*range(len(value))]:
        reordered = type(value)(reversed(value))  # type: ignore[call-arg]
        yield Step(
            f"{name}.reversed", f"{name}={reordered}, the reverse order", {name: reordered}, 3, True
        )


def same_as_another(view: SampleView, name: str, value: Sequence[float]) -> Iterator[Step]:
    """A list of numbers made equal to an earlier one of the same length: old and new spacings, for example.

    Then the op may have nothing to change.
    """
    for other, numbers in view.given.items():
        if other == name:
            return
        if not isinstance(numbers, (list, tuple)) or not value:
            continue
        of_one_kind = [*map(type, numbers)] == [*map(type, value)]  # before numbers are compared
        if of_one_kind and [*numbers] != [*value]:
            description = f"{name}={numbers}, as {other}"
            # Native code may not check whether they fit the tensors.
            beyond = _OTHERS if view.may_read_outside and type(numbers[0]) is int else None
            yield Step(f"{name}.is.{other}", description, {name: numbers}, 3, True, beyond=beyond)


def split_part(view: SampleView, name: str, value: Sequence[int]) -> Iterator[Step]:
    """A list of counts that add up to a size of a tensor, with the first count split: 1, and the rest."""
    sizes = {size for tensor in view.tensors for size in tensor.shape}
    if not all(type(part) is int and part >= 0 for part in value) or sum(value) not in sizes:
        return
    first = value[0] if value else 0
    if first > 1 and len(value) > 1:
        parts = type(value)([1, first - 1, *value[1:]])  # type: ignore[call-arg]
        others = [other for key, other in view.given.items() if key != name]
        lists = [other for other in others if isinstance(other, (list, tuple))]
        counts = {*sizes, *_ints(others), *map(len, lists)}
        beyond = (
            "one part more, and other arguments may have as many" if len(value) in counts else None
        )
        yield Step(
            f"{name}.split", f"{name}={parts}", {name: parts}, 3, reads_beyond=True, beyond=beyond
        )


def reversed_tensors(view: SampleView) -> Iterator[Step]:
    """Lists of tensors of several shapes or dtypes in reverse, together with all lists of the same length.

    An op may wrongly use the first tensor's shape or dtype for all of them.
    """
    arguments = view.given.items()
    lists = {name: value for name, value in arguments if isinstance(value, (list, tuple)) and value}
    if any(isinstance(item, SameAs) for value in lists.values() for item in value):
        return
    inside = [tensor for tensor in view.tensors if "[" in tensor.path]
    sizes = {size for tensor in view.tensors if tensor not in inside for size in tensor.shape}
    done: set[int] = set()
    for name, value in lists.items():
        kinds = {
            (tensor.shape, tensor.dtype) for tensor in inside if tensor.path.startswith(f"{name}[")
        }
        count = len(value)
        if len(kinds) > 1 and count not in done:
            done.add(count)
            together = [key for key, values in lists.items() if len(values) == count]
            changes = {key: type(lists[key])(reversed(lists[key])) for key in together}
            # Native code may not check whether a tensor with an entry for each of them fits.
            beyond = _ORDERED if view.may_read_outside and count in sizes else None
            description = f"{listed(together)} in reverse"
            yield Step(f"{name}.reversed", description, changes, 4, True, beyond=beyond)


def filled(view: SampleView, name: str) -> Iterator[Step]:
    """An empty list filled with tensors like those of the list before it; then also with each flag set.

    A flag may require them, such as the running maxima of an optimizer: one is rejected without the other.
    """
    order = (argument.name for argument in view.op.arguments)
    before = itertools.takewhile(lambda key: key != name, order)
    lists = [key for key in before if _is_list_of_tensors(view, key)]
    like = _tensors_in(view, lists[-1]) if lists else []
    if like and all(tensor.resizable for tensor in like):
        tensors = [
            replace(tensor.resized(tensor.shape), layout=None, requires_grad=None)
            for tensor in like
        ]
        step, what = f"{name}.as_{lists[-1]}", f"{name} given, as {lists[-1]}"
        yield Step(step, what, {name: tensors}, 2, True)
        for flag in _flags_off(view):
            changes = {name: tensors, flag: True}
            yield Step(f"{step}_with_{flag}", f"{what}; {flag}=True", changes, 3, True)


def _tensors_in(view: SampleView, name: str) -> list[TensorArgument]:
    """The tensors of a list."""
    return [tensor for tensor in view.tensors if tensor.path.startswith(f"{name}[")]


def _is_list_of_tensors(view: SampleView, name: str) -> bool:
    """Whether an argument is a non-empty list of nothing but tensors."""
    value = view.given.get(name)
    return isinstance(value, (list, tuple)) and len(_tensors_in(view, name)) == len(value) > 0


def _flags_off(view: SampleView) -> list[str]:
    """The flags that are False in the sample or by default."""
    return [argument.name for argument in view.op.arguments if view.value_of(argument) is False]


def single(view: SampleView, name: str) -> Step:
    """A list with only its first element."""
    beyond = None if _may_shrink(view, name) else "one list shorter than in the sample"
    description = f"{name} with its first element only"
    change = {name: view.given[name][:1]}
    return Step(f"{name}.single", description, change, 7, reads_beyond=True, beyond=beyond)


def _may_shrink(view: SampleView, name: str) -> bool:
    """Whether a list holds only tensors, and no other argument repeats their number.

    Lists of numbers may not shrink: their length is mostly a number of dims.
    """
    elements = view.given[name]
    count = len(elements)
    inside = _tensors_in(view, name)
    others = [value for key, value in view.given.items() if key != name]
    lists = [value for value in others if isinstance(value, (list, tuple))]
    sizes = {size for tensor in view.tensors if tensor not in inside for size in tensor.shape}
    repeated = (
        any(len(value) == count for value in lists) or count in sizes or count in _ints(others)
    )
    return len(inside) == count and not repeated


def _ints(values: Iterable[Any]) -> set[int]:
    return {value for value in values if isinstance(value, int) and not isinstance(value, bool)}
