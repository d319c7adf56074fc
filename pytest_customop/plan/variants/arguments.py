"""Variants of plain arguments: flags, dims, numbers, strings, dtypes, lists, options, defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...cases.argument_names import names_dims, names_offsets
from ...cases.compared_constants import compared_constants
from ...core.wording import dtype_name, listed_briefly
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op
from ...declare.variant import Step
from . import lists, numeric, optional
from .sample_view import SampleView

_NUMBERS = ("int", "SymInt", "float", "number", "Scalar")
_LISTED = ("List[int]", "List[SymInt]")
_PLAIN_LISTS = (*_LISTED, "List[float]", "List[bool]")
_DTYPES = (torch.float64, torch.float32, torch.float16)
Word = str | torch.dtype
Words = Mapping[str, Sequence[Word]]

_WORDS = 6  # the most strings that are tried for one argument

_ALONG_ONE = "another dim, where several tensors of positions may fit each other along one dim only"


@dataclass(frozen=True, eq=False)
class _Argument:
    """An argument that is not a tensor of the sample.

    Args:
        type: in the schema, without `Optional`.
        value: the sample's value, or the default.
        given: whether the sample gives it.
        elsewhere: the strings and dtypes that the mark's samples give it.
    """

    name: str
    type: str
    optional: bool
    value: Any
    given: bool
    elsewhere: Sequence[Word]

    @property
    def is_dim(self) -> bool:
        """Whether it is named like a dim."""
        return names_dims(self.name)


def words_given(op: Op, samples: Iterable[Sample]) -> Words:
    """The strings and dtypes that samples give, by argument."""
    words: dict[str, dict[Word, None]] = {}
    for sample in samples:
        for argument, value in op.bind(sample):
            if isinstance(value, (str, torch.dtype)):
                words.setdefault(argument.name, {})[value] = None
    return {name: list(values) for name, values in words.items()}


def steps(view: SampleView, words: Words) -> Iterator[Step]:
    """Changes of one argument at a time, in the order of the schema.

    Args:
        words: those of all samples of the mark. They are tried too.
    """
    dims = max((len(tensor.shape) for tensor in view.tensors), default=0)
    for schema_argument in view.op.arguments:
        name = schema_argument.name
        if name in view.op.mutated:
            continue
        default = schema_argument.default_value if schema_argument.has_default_value() else None
        given = name in view.given
        written = str(getattr(schema_argument, "real_type", schema_argument.type))
        argument = _Argument(
            name,
            written.removeprefix("Optional[").removesuffix("]")
            if written.startswith("Optional[")
            else written,
            written.startswith("Optional["),
            view.given[name] if given else default,
            given,
            words.get(name, ()),
        )
        yield from _changed(view, argument, dims)
        if argument.optional and argument.value is not None:
            yield _step(name, "absent", f"{name} None", None, 4)
        if given and schema_argument.has_default_value() and not _same(argument.value, default):
            description = f"{name} not given, its default {default!r}"
            yield Step(f"{name}.default", description, {}, 4, True, (name,))
    yield from lists.reversed_tensors(view)


def _step(name: str, step: str, description: str, value: Any, rank: int) -> Step:
    return Step(f"{name}.{step}", description, {name: value}, rank, reads_beyond=True)


def _changed(view: SampleView, argument: _Argument, dims: int) -> Iterator[Step]:
    """Other values of an argument, by its type."""
    name, value = argument.name, argument.value
    if argument.type == "bool":
        yield from _flag(argument)
        yield from _with_last_offset(view, argument)
    elif argument.type == "str":
        yield from _words(view, argument)
    elif argument.type == "ScalarType":
        yield from _dtypes(view, argument)
    elif argument.type == "Tensor":
        if value is None:
            yield from optional.steps(view, name)
    elif argument.type in _NUMBERS and isinstance(value, (int, float)):
        if argument.is_dim and isinstance(value, int) and -dims <= value < dims:
            yield from _other_dims(view, name, value, dims)
            yield from _swapped_with_last(view, name, value, dims)
        elif not isinstance(value, bool):
            constants = compared_constants(view.op, name)
            known = [constant for constant in constants if isinstance(constant, (int, float))]
            yield from numeric.steps(view, name, value, known, optional=argument.optional)
    elif argument.type in _NUMBERS and argument.optional and value is None:
        if argument.is_dim and dims:
            yield from (_step(name, str(dim), f"{name}={dim}", dim, 3) for dim in (0, -1))
        elif not argument.is_dim:
            yield from numeric.optional(view, name, argument.type in ("int", "SymInt"))
    elif argument.type in _PLAIN_LISTS and argument.optional and value is None:
        yield from lists.given(view, name, argument.type, argument.is_dim)
    elif isinstance(value, (list, tuple)):
        if value and argument.is_dim:
            yield from lists.dims(name, value, dims)
        elif value and argument.type in (*_LISTED, "List[float]"):
            yield from lists.same_as_another(view, name, value)
        if value and argument.type in _LISTED and not argument.is_dim:
            yield from numeric.in_lists(view, name, value)
            yield from lists.reversed_order(name, value)
            yield from lists.split_part(view, name, value)
        if not value and argument.type == "List[Tensor]":
            yield from lists.filled(view, name)
        if argument.given and len(value) > 1:
            yield lists.single(view, name)


def _flag(argument: _Argument) -> Iterator[Step]:
    """The flag inverted; True in place of None."""
    name, value = argument.name, argument.value
    if isinstance(value, bool):
        rank = 0 if argument.given else 1
        yield _step(name, str(not value).lower(), f"{name}={not value}", not value, rank)
    elif value is None and not argument.given:
        yield _step(name, "true", f"{name}=True", True, 6)


def _with_last_offset(view: SampleView, argument: _Argument) -> Iterator[Step]:
    """The flag of `torch.nn.EmbeddingBag` set, and an offset added where the last part ends."""
    if argument.name != "include_last_offset" or argument.value is not False:
        return
    vectors = [tensor for tensor in view.tensors if len(tensor.shape) == 1]
    for tensor in vectors:
        if not (names_offsets(tensor.path) and tensor.is_sorted):
            continue
        sizes = [each.shape[0] for each in vectors if each is not tensor]
        ends = [size for size in sizes if size >= int(tensor.listed[-1])]
        if ends and int(tensor.listed[0]) == 0:
            values = torch.cat([tensor.listed, torch.tensor([min(ends)])]).to(tensor.listed.dtype)
            spec = replace(tensor.spec, shape=(len(values),), values=values)
            what = f"{argument.name}=True, and {tensor.path} with the end of the last part"
            changes = {argument.name: True, tensor.path: spec}
            yield Step(f"{argument.name}.true_with_end", what, changes, 0, reads_beyond=True)


def _words(view: SampleView, argument: _Argument) -> Iterator[Step]:
    """The strings that the op's code compares the argument with, and those of other samples."""
    values = [*argument.elsewhere, *compared_constants(view.op, argument.name)]
    strings = [value for value in dict.fromkeys(map(_hashable, values)) if isinstance(value, str)]
    for at, string in enumerate(
        string for string in strings[: _WORDS + 1] if string != argument.value
    ):
        yield _step(
            argument.name,
            _as_name(string),
            f"{argument.name}={string!r}",
            string,
            2 if at < 2 else 5,
        )


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, torch.dtype)) else None


def _as_name(word: str) -> str:
    """A string made fit for a test id."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", word) or "empty"


def _dtypes(view: SampleView, argument: _Argument) -> Iterator[Step]:
    """The dtype of the tensors, other floating-point ones, and those that the op's code names."""
    whole = isinstance(argument.value, torch.dtype) and not argument.value.is_floating_point
    floats = [tensor.dtype for tensor in view.tensors if tensor.floating]
    named = [
        constant
        for constant in compared_constants(view.op, argument.name)
        if isinstance(constant, torch.dtype)
    ]
    elsewhere = [value for value in argument.elsewhere if isinstance(value, torch.dtype)]
    usual = () if whole else (*floats[:1], *_DTYPES)
    for at, dtype in enumerate(dict.fromkeys((*elsewhere, *usual, *named))):
        if dtype != argument.value:
            word = dtype_name(dtype)
            yield _step(argument.name, word, f"{argument.name}={dtype}", dtype, 3 if at < 2 else 6)


def _other_dims(view: SampleView, name: str, value: int, dims: int) -> Iterator[Step]:
    """Another dim: the same dim counted the other way, then each other dim from either end."""
    positions = [tensor for tensor in view.tensors if tensor.holds_positions]
    beyond = _ALONG_ONE if len(positions) > 1 else None
    negated = value - dims if value >= 0 else value + dims
    if negated != value:
        yield _step(
            name, "negated", f"{name}={negated}, the same dim counted the other way", negated, 0
        )
    for dim in range(dims):
        if dim not in (value, negated):
            from_front = 5 if dim in (0, dims - 1) else 9
            from_end = 3 if dim == dims - 1 else 12  # -1 is the most frequent negative dim
            for number, rank in ((dim, from_front), (dim - dims, from_end)):
                step = _step(name, str(number), f"{name}={number}", number, rank)
                yield step._replace(beyond=beyond)


def _swapped_with_last(view: SampleView, name: str, value: int, dims: int) -> Iterator[Step]:
    """-1, and the tensors with this dim and the last one swapped: another tensor may have its size."""
    dim, last = value % dims, dims - 1
    tensors = [tensor for tensor in view.tensors if len(tensor.shape) == dims]
    if dim == last or all(tensor.shape[dim] == tensor.shape[last] for tensor in tensors):
        return
    changes = {tensor.path: _with_swapped(tensor.spec, dim, last) for tensor in tensors}
    names = listed_briefly([*changes])
    what = f"{name}=-1, and dims {dim} and {last} of {names} swapped"
    yield Step(f"{name}.-1_of_swapped", what, {name: -1, **changes}, 3, reads_beyond=True)


def _with_swapped(spec: TensorSpec, dim: int, other: int) -> TensorSpec:
    shape = [*spec.shape]
    shape[dim], shape[other] = shape[other], shape[dim]
    values = spec.values
    if values is not None:
        values = torch.as_tensor(values).transpose(dim, other).contiguous()
    return replace(spec, shape=tuple(shape), values=values)


def _same(value: Any, default: Any) -> bool:
    """Whether a value is the default, or cannot be compared with it."""
    plain = (bool, int, float, str, type(None))
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return not isinstance(value, plain) or (isinstance(default, plain) and value == default)
