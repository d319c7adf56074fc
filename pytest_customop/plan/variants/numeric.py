"""Variants of numbers: one more or less, doubled, half, 0, 1, negative, plus 0.5, a size, an earlier one.

For native code, in which a buffer may be too small, also a large number; the largest of a documented range;
one above every size, if a docstring says what it does then.
For floats, also a number that scales a size to a non-integer. First, the numbers of which a docstring says
what they mean.

The op decides which of them it accepts. Other negative numbers in place of others are beyond the sample,
and so are numbers for which integers among the tensors may be too large. For a kernel that may read out of
bounds, so are numbers that may belong to a tensor's size or to its integers, as only the number changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...cases.argument_names import names_dims, names_positions, names_tolerance
from ...cases.documented import cuts_off
from ...cases.documented_integers import Range, integer_range
from ...cases.documented_numbers import may_exceed_sizes, numbers_with_meaning
from ...declare.variant import Step
from .sample_view import SampleView

_TIED = "a number that sizes of the tensors may depend on, changed alone"
_BELONGS = "a number that integers of the sample may belong to, changed alone"
_NEGATIVE = "a negative number in place of another one"
_TOO_SMALL = "a number smaller than integers of the sample, which may be positions below it"
_COUNTS = "a number in place of None, which may have to fit integers of the sample"
_SMALL = 0.05  # a change of a smaller number would be lost in tolerances
_MOST = 2**16  # the largest integer that is derived
_LARGEST = 2**12  # the same for an end of a documented range, as it may be a size
_BUFFER = 2**8  # more than the elements of a buffer on the stack, and even: an odd number stays odd
_SIZES = 2  # the most sizes that are tried for a number
_FACTORS = (0.9, 0.8, 0.7, 0.6, 1.1)  # tried on a number by which the op may scale a size
_ABOVE_HALF = 0.55
_MEANT = 2  # the rank of a number with a documented meaning
_OPTIONAL_INT = (1, 2)
_OPTIONAL_FLOAT = (0.5, 1.0)


def steps(
    view: SampleView, name: str, value: Any, constants: Sequence[Any], *, optional: bool = False
) -> Iterator[Step]:
    """Other numbers in place of one; of a tolerance, only smaller ones.

    Args:
        value: the sample's value, or the default.
        constants: the numbers that the op's code compares the argument with.
        optional: whether the argument may be None.
    """
    every = _every_step(view, name, value, constants, optional)
    if names_tolerance(name):
        every = (step for step in every if step.changes[name] < value)
    yield from every


def _every_step(
    view: SampleView, name: str, value: Any, constants: Sequence[Any], optional: bool
) -> Iterator[Step]:
    whole = not isinstance(value, float)
    yield from _with_meaning(view, name, whole)
    if whole:
        yield from _ints(view, name, int(value), optional)
    else:
        yield from _floats(view, name, value)
    for constant in constants:
        if abs(constant) <= _MOST and (isinstance(constant, int) or not whole):
            number = constant if whole else float(constant)
            if number != value:
                beyond = _beyond(view, name, value, number) if whole else None
                yield _step(name, str(number), number, 5, beyond)


def _with_meaning(view: SampleView, name: str, whole: bool) -> Iterator[Step]:
    """The numbers of which a docstring says what they mean, within the sample for that reason."""
    for number in numbers_with_meaning(view.op, name):
        if not whole:
            yield _step(name, str(number), number, _MEANT)
        elif number.is_integer():
            yield _step(name, str(int(number)), int(number), _MEANT)


def other_number(view: SampleView, name: str, value: float, number: float) -> Step:
    """The step from a number to another one of its type."""
    whole = not isinstance(value, float)
    beyond = (_beyond(view, name, int(value), number) if whole else None) or _negative(
        value, number
    )
    return _step(name, str(number), number, 5, beyond)


def other_in_list(view: SampleView, name: str, values: Sequence[int], at: int, number: int) -> Step:
    """The step that changes one number of a list."""
    changed = [*values[:at], number, *values[at + 1 :]]
    beyond = _TIED if _is_tied(view, values[at], name) else _negative(values[at], number)
    description = f"{name}={changed}"
    change = {name: type(values)(changed)}  # type: ignore[call-arg]
    return Step(f"{name}[{at}].{number}", description, change, 6, True, beyond=beyond)


def optional(view: SampleView, name: str, whole: bool) -> Iterator[Step]:
    """A number in place of None."""
    if names_tolerance(name):
        return
    yield from _with_meaning(view, name, whole)
    counts = whole and any(tensor.holds_positions for tensor in view.tensors)
    for rank, value in enumerate(_OPTIONAL_INT if whole else _OPTIONAL_FLOAT):
        yield _step(name, str(value), value, 4 + 4 * rank, _COUNTS if counts else None)


def in_lists(view: SampleView, name: str, values: Sequence[int]) -> Iterator[Step]:
    """Every number of a list one more, and one less; the last sizes of the first tensor; all 1; all 0.

    If a list equals the sizes of the tensor, or its numbers are 1 or 0, an op may do nothing at all.
    """
    tied = any(_is_tied(view, value, name) for value in values)
    others = [
        ("more", [value + 1 for value in values], 6),
        ("less", [value - 1 for value in values], 9),
        *((f"as_{path}", sizes, 4) for path, sizes in _sizes_for(view, len(values))),
        ("ones", [1] * len(values), 7),
        ("zeros", [0] * len(values), 8),
    ]
    for step, changed, rank in others:
        if changed != [*values]:
            beyond = _TIED if tied else _negative(min(values), min(changed))
            change = {name: type(values)(changed)}  # type: ignore[call-arg]
            yield Step(f"{name}.{step}", f"{name}={changed}", change, rank, True, beyond=beyond)


def _sizes_for(view: SampleView, count: int) -> Iterator[tuple[str, list[int]]]:
    """The last sizes of the first tensor, as many as a list has numbers."""
    first = next(iter(view.tensors), None)
    if first is not None and count <= len(first.shape):
        yield first.path, [*first.shape[-count:]]


def _ints(view: SampleView, name: str, value: int, optional: bool) -> Iterator[Step]:
    tied = _is_tied(view, value, name)
    others = [
        ("more", value + 1, 3),
        ("less", value - 1, 5),
        ("doubled", 2 * value, 6),
        ("half", value // 2 if value > 0 else -(-value // 2), 7),
        ("1", 1, 7),
        ("0", 0, 4 if optional else 8),  # `if number:` takes it for None
        ("-1", -1, 11),
        *((f"size_{size}", size, 4) for size in _last_sizes(view)),
        *((f"is.{other_name}", number, 4) for other_name, number in _numbers_before(view, name)),
        *(("largest", documented.high, 4) for documented in _documented(view, name, value)),
        *(("above", size + 1, _MEANT) for size in _exceeded(view, name)),
    ]
    if view.may_read_outside and value > 0:
        others.append(("large", value + _BUFFER, 6))
    seen = {value}
    for step, number, rank in others:
        if number not in seen and abs(number) <= max(_MOST, abs(value)):
            seen.add(number)
            beyond = _beyond(view, name, value, number) or _negative(value, number)
            # With 1, as a width or a stride, an op may do nothing and return its input.
            tie = 2 if number == 1 else 3
            yield _step(name, step, number, rank + tie * tied, beyond)


def _documented(view: SampleView, name: str, value: int) -> Iterator[Range]:
    """The range that a docstring gives, if the sample's number is in it."""
    documented = integer_range(view.op, name)
    if documented is not None and documented.low <= value <= documented.high <= _LARGEST:
        yield documented


def _exceeded(view: SampleView, name: str) -> Iterator[int]:
    """The largest size, if a docstring says what the op does where a number is above a size."""
    sizes = [size for tensor in view.tensors for size in tensor.shape]
    if sizes and may_exceed_sizes(view.op, name):
        yield max(sizes)


def _last_sizes(view: SampleView) -> list[int]:
    """The last sizes of the tensors, above 1: if a number equals one, an op may do nothing at all."""
    last = [tensor.shape[-1] for tensor in view.tensors if tensor.shape and tensor.shape[-1] > 1]
    return [*dict.fromkeys(last)][:_SIZES]


def _numbers_before(view: SampleView, name: str) -> list[tuple[str, int]]:
    """(name, value) of the integers before an argument: if two are equal, an op may do nothing."""
    before = [
        *itertools.takewhile(
            lambda other_name: other_name != name, (argument.name for argument in view.op.arguments)
        )
    ]
    return [
        (other_name, view.given[other_name])
        for other_name in before
        if type(view.given.get(other_name)) is int and not names_dims(other_name)
    ]


def _beyond(view: SampleView, name: str, value: int, number: float) -> str | None:
    """Why another number leaves what the tensors of the sample show; None if it does not."""
    if 1 <= number < value and cuts_off(view.op, name):
        return None
    if view.may_read_outside:  # a Python kernel raises if a number does not fit, or accepts it
        if _is_tied(view, value, name):
            return _TIED
        if any(tensor.holds_positions for tensor in view.tensors):
            return _BELONGS
    if names_positions(name):
        return None  # it is one of the positions: `padding_idx`
    highest = [tensor.highest_position for tensor in view.tensors]
    return _TOO_SMALL if any(h is not None and number <= h < value for h in highest) else None


def _floats(view: SampleView, name: str, value: float) -> Iterator[Step]:
    if not math.isfinite(value):
        yield _step(name, "1.0", 1.0, 4)
        return
    uneven = _uneven(view, value)
    if uneven is not None:
        yield _step(name, "uneven", uneven, 5)
    others = [("doubled", 2 * value, 8), ("half", value / 2, 4), ("0.0", 0.0, 5)]
    if abs(value) < _SMALL:
        others = [("0.1", 0.1, 2), ("0.0", 0.0, 5), ("1.0", 1.0, 8)]
    elif value == int(value):
        others.append(("fraction", value + 0.5, 9))
    others.append(("negative", -value or -0.1, 11))
    for step, number, rank in others:
        if number != value:
            yield _step(name, step, number, rank, _negative(value, number))


def _uneven(view: SampleView, value: float) -> float | None:
    """A number near a positive one that scales a size to more than 0.5 above an integer.

    There, rounding and truncation differ. None if there is no size to scale.
    """
    sizes = {size for tensor in view.tensors for size in tensor.shape[-2:] if size > 1}
    if not sizes or value <= 0:
        return None
    scaled = [round(value * factor, 4) for factor in _FACTORS]
    above = {
        number: sum(_ABOVE_HALF < number * size % 1 < 1 - _SMALL for size in sizes)
        for number in scaled
    }
    best = max(scaled, key=lambda number: above[number])
    return best if above[best] else None


def _step(name: str, step: str, value: Any, rank: int, beyond: str | None = None) -> Step:
    description = f"{name}={value}"
    return Step(f"{name}.{step}", description, {name: value}, rank, True, beyond=beyond)


def _negative(value: float, number: float) -> str | None:
    """Why another number leaves the sample because of its sign; None if it does not."""
    return _NEGATIVE if number < 0 <= value else None


def _is_tied(view: SampleView, value: int, name: str) -> bool:
    """Whether an integer above 1 occurs as a size, a count, or the end of a range of positions.

    Args:
        name: of the argument that it comes from.
    """
    if value <= 1:
        return False
    for tensor in view.tensors:
        if value in tensor.shape or value in tensor.counted or value == math.prod(tensor.shape):
            return True
        high = None if tensor.floating or tensor.dtype == torch.bool else tensor.spec.high
        if high is not None and value in (int(high), int(high) - 1):
            return True
    others = [argument for other_name, argument in view.given.items() if other_name != name]
    return any(len(argument) == value for argument in others if isinstance(argument, (list, tuple)))
