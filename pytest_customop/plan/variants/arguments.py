"""Variants of plain arguments: flags, dims, numbers, strings, dtypes, lists, options, defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.argument_names import names_dims
from ...cases.compared_constants import compared_constants
from ...core.wording import dtype_name
from ...declare.inputs import Sample
from ...declare.variant import Step
from . import lists, numeric, optional
from .sample_view import SampleView

_NUMBERS = ("int", "SymInt", "float", "number", "Scalar")
_LISTED = ("List[int]", "List[SymInt]")
_DTYPES = (torch.float64, torch.float32, torch.float16)
_WORDS = 6  # the most strings that are tried for one argument


@dataclass(frozen=True, eq=False)
class _Argument:
    """An argument that is not a tensor of the sample.

    Args:
        type: of the schema, without `Optional`.
        value: what the sample gives, or the default.
        given: whether the sample gives it.
        elsewhere: what other samples give.
    """

    name: str
    type: str
    optional: bool
    value: Any
    given: bool
    elsewhere: Sequence[Any]

    @property
    def is_dim(self) -> bool:
        """Whether it is called like a dim."""
        return names_dims(self.name)


def steps(view: SampleView, samples: Sequence[Sample] = ()) -> Iterator[Step]:
    """Changes of one argument at a time, in the order of the schema.

    Args:
        samples: all samples of the mark. What they give is tried too.
    """
    dims = max((len(each.shape) for each in view.tensors), default=0)
    others = [{argument.name: value for argument, value in view.op.bind(one)} for one in samples]
    for argument in view.op.arguments:
        name = argument.name
        if name in view.op.mutated:
            continue
        default = argument.default_value if argument.has_default_value() else None
        given = name in view.given
        written = str(getattr(argument, "real_type", argument.type))
        one = _Argument(
            name,
            written.removeprefix("Optional[").removesuffix("]")
            if written.startswith("Optional[")
            else written,
            written.startswith("Optional["),
            view.given[name] if given else default,
            given,
            [other[name] for other in others if name in other],
        )
        yield from _changed(view, one, dims)
        if one.optional and one.value is not None:
            yield _step(name, "absent", f"{name} None", None, 4)
        if given and argument.has_default_value() and not _same(one.value, default):
            description = f"{name} not given, its default {default!r}"
            yield Step(f"{name}.default", description, {}, 4, True, (name,))
    yield from lists.reversed_tensors(view)


def _step(name: str, step: str, description: str, value: Any, rank: int) -> Step:
    return Step(f"{name}.{step}", description, {name: value}, rank, reads_beyond=True)


def _changed(view: SampleView, one: _Argument, dims: int) -> Iterator[Step]:
    """Other values of an argument, by its type."""
    name, value = one.name, one.value
    if one.type == "bool":
        yield from _flag(one)
    elif one.type == "str":
        yield from _words(view, one)
    elif one.type == "ScalarType":
        yield from _dtypes(view, one)
    elif one.type == "Tensor":
        if value is None:
            yield from optional.steps(view, name)
    elif one.type in _NUMBERS and isinstance(value, (int, float)):
        if one.is_dim and isinstance(value, int) and -dims <= value < dims:
            yield from _other_dims(name, value, dims)
        elif not isinstance(value, bool):
            constants = compared_constants(view.op, name)
            known = [each for each in constants if isinstance(each, (int, float))]
            yield from numeric.steps(view, name, value, known)
    elif one.type in _NUMBERS and one.optional and value is None:
        if one.is_dim and dims:
            yield from (_step(name, str(dim), f"{name}={dim}", dim, 3) for dim in (0, -1))
        elif not one.is_dim:
            yield from numeric.optional(view, name, one.type in ("int", "SymInt"))
    elif isinstance(value, (list, tuple)):
        if value and one.is_dim:
            yield from lists.dims(name, value, dims)
        elif value and one.type in _LISTED:
            yield from numeric.in_lists(view, name, value)
            yield from lists.reversed_order(name, value)
        if one.given and len(value) > 1:
            yield lists.single(view, name)


def _flag(one: _Argument) -> Iterator[Step]:
    """The flag the other way; True in place of None."""
    name, value = one.name, one.value
    if isinstance(value, bool):
        rank = 0 if one.given else 1
        yield _step(name, str(not value).lower(), f"{name}={not value}", not value, rank)
    elif value is None and not one.given:
        yield _step(name, "true", f"{name}=True", True, 6)


def _words(view: SampleView, one: _Argument) -> Iterator[Step]:
    """The strings that the op's code compares the argument with, and those of other samples."""
    found = [*one.elsewhere, *compared_constants(view.op, one.name)]
    words = [each for each in dict.fromkeys(map(_hashable, found)) if isinstance(each, str)]
    for at, word in enumerate(each for each in words[: _WORDS + 1] if each != one.value):
        yield _step(one.name, _as_name(word), f"{one.name}={word!r}", word, 2 if at < 2 else 5)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, torch.dtype)) else None


def _as_name(word: str) -> str:
    """A string as it can stand in a test id."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", word) or "empty"


def _dtypes(view: SampleView, one: _Argument) -> Iterator[Step]:
    """The dtype of the tensors, other floating-point ones, and those that the op's code names."""
    whole = isinstance(one.value, torch.dtype) and not one.value.is_floating_point
    floats = [each.dtype for each in view.tensors if each.floating]
    named = [
        each for each in compared_constants(view.op, one.name) if isinstance(each, torch.dtype)
    ]
    elsewhere = [each for each in one.elsewhere if isinstance(each, torch.dtype)]
    usual = () if whole else (*floats[:1], *_DTYPES)
    for at, dtype in enumerate(dict.fromkeys((*elsewhere, *usual, *named))):
        if dtype != one.value:
            word = dtype_name(dtype)
            yield _step(one.name, word, f"{one.name}={dtype}", dtype, 3 if at < 2 else 6)


def _other_dims(name: str, value: int, dims: int) -> Iterator[Step]:
    """Another dim: the same one counted the other way, then each other one from either end."""
    other = value - dims if value >= 0 else value + dims
    if other != value:
        yield _step(
            name, "negated", f"{name}={other}, the same dim counted the other way", other, 0
        )
    for dim in range(dims):
        if dim not in (value, other):
            yield _step(name, str(dim), f"{name}={dim}", dim, 5 if dim in (0, dims - 1) else 9)
            rank = 3 if dim == dims - 1 else 12  # -1 is the most frequent of the negative ones
            yield _step(name, str(dim - dims), f"{name}={dim - dims}", dim - dims, rank)


def _same(value: Any, default: Any) -> bool:
    """Whether a value is the default, or cannot be compared with it."""
    plain = (bool, int, float, str, type(None))
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return not isinstance(value, plain) or (isinstance(default, plain) and value == default)
