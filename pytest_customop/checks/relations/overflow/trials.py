"""The numbers that an op is called with to see whether they overflow on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ....cases.argument_names import names_dims, names_positions, names_seed
from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.documented_dtypes import dtypes_of, may_be_integer, takes_any_floats
from ....cases.documented_numbers import limits_argument
from ....cases.tensors import base_name, is_differentiable, is_plain
from ...values.memory.calls import expression, results, with_argument
from ..integer_width.arguments import Argument, narrow_arguments
from ..integer_width.fills import Fill, demanding_fills, filled
from ..random_integers import random_integer_lines, with_random_integers

_SEVERAL = 1 / 16  # of the range of a dtype: smaller numbers may be codes or labels
_SCALES = (1, 16, 64)  # of numbers in float16
_FACTORS = (16, 256, 4096)  # of plain integers
_LARGEST = 2**20  # a plain integer may become
_COUNTS = ("n_", "num_")  # begin the names of sizes: `n_cols`
_TABLE = 2**17  # entries of a large table


class Trial(NamedTuple):
    """Arguments to call an op with.

    Args:
        description: how they differ from the case's, for a message; empty if they do not.
        change: makes them from the case's own.
        script: writes the lines of a script that change `args` and `kwargs`.
        widen: makes the same numbers in float32 from those in float16; None for others.
    """

    description: str
    change: Callable[[Arguments], Arguments]
    script: Callable[[], str]
    widen: Callable[[Arguments], Arguments] | None = None


def trials(case: Case) -> Iterator[Trial]:
    """The case's own numbers, integers near the ends of what it shows, and the same in float16."""
    yield Trial("", lambda arguments: arguments, str)
    is_sample = case.base_case is None
    arguments = narrow_arguments(case) if is_sample or case.kind == "long" else []
    if arguments:
        limits = [
            argument.limits if _is_named(case, argument) else argument.shown
            for argument in arguments
        ]
        wide = min(argument.dtype.itemsize for argument in arguments) >= 4
        for fill in demanding_fills(limits, wide, ends=False):
            yield _with_fill(case, arguments, fill)
    if is_sample and _decides_by_floats(case):
        has_bytes = any(t.dtype == torch.uint8 for _, t in case.inputs().tensors())
        for scale in (1,) if has_bytes else _SCALES:  # other numbers are in the range of bytes, too
            yield _in_float16(case, scale)


def larger_numbers(case: Case) -> Iterator[Trial]:
    """Plain integers many times as large, if a result is int64 and no docstring limits them."""
    dtypes = {leaf.dtype for _, leaf in results(case.eager) if isinstance(leaf, torch.Tensor)}
    if case.base_case is not None or torch.int64 not in dtypes:
        return
    given = {
        argument.name: value
        for argument, value in case.op.bind(case.sample)
        if any(map(_is_small, _numbers(value))) and _may_grow(case, argument.name)
    }
    for factor in _FACTORS if given else ():
        yield _with_numbers(case, {name: _grown(value, factor) for name, value in given.items()})
    yield from _with_entries_of_large_tables(case, given)


def _with_entries_of_large_tables(case: Case, sizes: Mapping[str, Any]) -> Iterator[Trial]:
    """Larger sizes, and larger numbers where int32 ones are below a size: entries of a large table."""
    plain = {name: value for name, value in sizes.items() if type(value) is int}
    entries = [
        name
        for name, tensor in case.inputs().tensors()
        if tensor.dtype == torch.int32 and is_plain(tensor) and tensor.numel()
        if int(tensor.min()) >= 0 and int(tensor.max()) < max(plain.values(), default=0)
    ]
    if not entries:
        return
    numbers = _with_numbers(case, dict.fromkeys(plain, _TABLE))
    seeds = {name: seed for seed, name in enumerate(entries)}

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return with_random_integers(tensor, _TABLE, seeds[name]) if name in seeds else tensor

    def script() -> str:
        return numbers.script() + "".join(
            random_integer_lines(expression(case, name), _TABLE, seed)
            for name, seed in seeds.items()
        )

    yield Trial(
        f"{numbers.description} and numbers below it in {', '.join(entries)}",
        lambda arguments: numbers.change(arguments).map_distinct(change),
        script,
    )


def _grown(value: Any, factor: int) -> Any:
    """A whole number, or a list of them, times a factor; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [_grown(item, factor) for item in value]
    return min(value * factor, _LARGEST) if _is_small(value) else value


def _numbers(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _is_small(value: Any) -> bool:
    return type(value) is int and 1 < value < _LARGEST


def _is_named(case: Case, argument: Argument) -> bool:
    """Whether the text about an argument names its dtype, or any integers, and so all of its numbers.

    If the sample has only small numbers, they may be codes or labels.
    """
    if argument.dtype.itemsize > 2:
        return False
    largest = max(argument.shown.high, -argument.shown.low)
    if largest < _SEVERAL * argument.limits.high:
        return False
    name = base_name(argument.name)
    return argument.dtype in dtypes_of(case.op, name) or may_be_integer(case.op, name)


def _with_fill(case: Case, arguments: Sequence[Argument], fill: Fill) -> Trial:
    at = {argument.name: index for index, argument in enumerate(arguments)}

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return filled(tensor, fill.numbers[at[name]], at[name]) if name in at else tensor

    def script() -> str:
        lines = []
        for name, tensor in case.inputs().tensors():
            if name in at:
                place, values = expression(case, name), change(name, tensor).flatten().tolist()
                lines.append(
                    f"values = torch.tensor({values}).reshape({place}.shape)\n"
                    f"{place} = torch.empty_like({place}).copy_(values)\n"
                )
        return "".join(lines)

    description = f"with integers {fill.name} of what {', '.join(at)} may hold"
    return Trial(description, lambda inputs: inputs.map_distinct(change), script)


def _decides_by_floats(case: Case) -> bool:
    """Whether an op returns positions or decisions for floating-point numbers of any dtype."""
    tensors = dict(case.inputs().tensors())
    floats = [name for name, tensor in tensors.items() if is_differentiable(tensor.dtype)]
    leaves = [leaf for _, leaf in results(case.eager) if isinstance(leaf, torch.Tensor)]
    decides = any(not is_differentiable(leaf.dtype) for leaf in leaves)
    wide = all(tensors[name].dtype in (torch.float32, torch.float64) for name in floats)
    return decides and wide and any(takes_any_floats(case.op, base_name(name)) for name in floats)


def _in_float16(case: Case, scale: int) -> Trial:
    def is_changed(tensor: torch.Tensor) -> bool:
        return is_differentiable(tensor.dtype) and is_plain(tensor)

    def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
        return (tensor.detach() * scale).to(torch.float16) if is_changed(tensor) else tensor

    def script() -> str:
        given = case.inputs().tensors()
        places = [expression(case, name) for name, tensor in given if is_changed(tensor)]
        return "".join(
            f"{place} = ({place}.detach() * {scale}).to(torch.float16)\n" for place in places
        )

    def wide(_: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if is_changed(tensor) else tensor

    times = "" if scale == 1 else f", {scale} times as large"
    return Trial(
        f"with floating-point numbers in float16{times}",
        lambda inputs: inputs.map_distinct(change),
        script,
        lambda inputs: inputs.map_distinct(change).map_distinct(wide),
    )


def _may_grow(case: Case, name: str) -> bool:
    is_position = names_positions(name) and not name.startswith(_COUNTS)
    if is_position or names_dims(name) or names_seed(name):
        return False
    return not limits_argument(case.op, name)


def _with_numbers(case: Case, values: Mapping[str, Any]) -> Trial:
    def change(arguments: Arguments) -> Arguments:
        for name, value in values.items():
            arguments = with_argument(arguments, name, value)
        return arguments

    def script() -> str:
        return "".join(f"{expression(case, name)} = {value!r}\n" for name, value in values.items())

    description = "with " + ", ".join(f"{name}={value}" for name, value in values.items())
    return Trial(description, change, script)
