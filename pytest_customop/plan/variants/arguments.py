"""Variants of plain arguments: flags, dims, dtypes, lists, optional arguments, defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...core.wording import dtype_name
from ...declare.variant import Step
from .sample_view import SampleView

_DIM = re.compile(r"(^|_)(dims?|axis|axes)($|_)|(^|_)(dim|axis)\d*$")


def names_dims(name: str) -> bool:
    """Whether an argument of this name counts dims."""
    return bool(_DIM.search(name))


def steps(view: SampleView) -> Iterator[Step]:
    """Changes of one argument at a time, in the order of the schema."""
    dims = max((len(each.shape) for each in view.tensors), default=0)
    for argument in view.op.arguments:
        name = argument.name
        if name in view.op.mutated:
            continue
        optional = str(argument.type).startswith("Optional[")
        if name not in view.given:
            yield from _absent(view, argument, optional, dims)
            continue
        value = view.given[name]
        yield from _changed(view, name, value, dims)
        if optional and value is not None:
            yield _step(name, "absent", f"{name} None", None, 4)
        if argument.has_default_value() and not _same(value, argument.default_value):
            description = f"{name} not given, its default {argument.default_value!r}"
            yield Step(f"{name}.default", description, {}, 4, True, (name,))


def _step(
    name: str, step: str, description: str, value: Any, rank: int, beyond: str | None = None
) -> Step:
    change = {name: value}
    return Step(f"{name}.{step}", description, change, rank, reads_beyond=True, beyond=beyond)


def _changed(view: SampleView, name: str, value: Any, dims: int) -> Iterator[Step]:
    """Changes of an argument that the sample gives."""
    if isinstance(value, bool):
        yield _step(name, str(not value).lower(), f"{name}={not value}", not value, 0)
    elif isinstance(value, int) and names_dims(name):
        yield from _other_dims(name, value, dims)
    elif isinstance(value, torch.dtype) and value.is_floating_point:
        other = torch.float32 if value == torch.float64 else torch.float64
        yield _step(name, dtype_name(other), f"{name}={other}", other, 3)
    elif isinstance(value, (list, tuple)) and len(value) > 1:
        beyond = None if _may_shrink(view, name) else "one list shorter than in the sample"
        description = f"{name} with its first element only"
        yield _step(name, "single", description, value[:1], 7, beyond)


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


def _other_dims(name: str, value: int, dims: int) -> Iterator[Step]:
    """Another dim: the same one counted the other way, the first, the last."""
    if not -dims <= value < dims:
        return
    other = value - dims if value >= 0 else value + dims
    if other != value:
        yield _step(
            name, "negated", f"{name}={other}, the same dim counted the other way", other, 0
        )
    for wanted in (0, dims - 1):
        if wanted not in (value, other):
            yield _step(name, str(wanted), f"{name}={wanted}", wanted, 5)


def _absent(view: SampleView, argument: Any, optional: bool, dims: int) -> Iterator[Step]:
    """Changes of an argument that the sample leaves to its default."""
    name, default = argument.name, argument.default_value
    if isinstance(default, bool):
        yield _step(name, str(not default).lower(), f"{name}={not default}", not default, 1)
    elif isinstance(default, int) and names_dims(name):
        yield from _other_dims(name, default, dims)
    elif optional and default is None:
        yield from _given(view, name, str(argument.type))


def _given(view: SampleView, name: str, kind: str) -> Iterator[Step]:
    if kind == "Optional[bool]":
        yield _step(name, "true", f"{name}=True", True, 6)
    elif kind == "Optional[Tensor]" and view.tensors:
        like = view.tensors[0]
        if like.resizable:
            yield _step(name, "given", f"{name} given, as {like.path}", like.resized(like.shape), 9)


def _same(value: Any, default: Any) -> bool:
    """Whether a value is the default, or cannot be compared with it."""
    plain = (bool, int, float, str, type(None))
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return not isinstance(value, plain) or (isinstance(default, plain) and value == default)
