"""The names and the numbers in the Python code of an op."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from ..compat.ops import python_kernels
from ..declare.ops import Op

_DEPTH = 4  # levels of functions that call functions


def names_in_code(op: Op) -> Iterator[str]:
    """The names in the Python kernels of an op, and in the functions that they refer to."""
    for code, _ in _codes(op):
        yield from code.co_names


def numbers_in_code(op: Op) -> Iterator[float]:
    """The numbers in an op's Python kernels and the functions that they use, including named constants."""
    for code, known in _codes(op):
        constants = [*code.co_consts, *(known.get(name) for name in code.co_names)]
        yield from (value for value in constants if type(value) in (int, float))


def whole_numbers_in_code(op: Op) -> set[int]:
    """The integers among `numbers_in_code`."""
    return {number for number in numbers_in_code(op) if isinstance(number, int)}


def _codes(op: Op) -> Iterator[tuple[types.CodeType, Mapping[str, Any]]]:
    for _, function in python_kernels(op.overload):
        yield from _codes_of(function, _DEPTH, set())


def _codes_of(
    function: Any, depth: int, seen: set[int]
) -> Iterator[tuple[types.CodeType, Mapping[str, Any]]]:
    """The code of a function and of those that it refers to, each with its globals."""
    function = getattr(function, "__wrapped__", function)  # of functools.cache
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or depth == 0 or id(code) in seen:
        return
    seen.add(id(code))
    for inner in _inside(code):
        yield inner, function.__globals__
        for name in inner.co_names:
            yield from _codes_of(function.__globals__.get(name), depth - 1, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _codes_of(cell.cell_contents, depth - 1, seen)
        except ValueError:  # not filled yet
            continue


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and the code of the functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _inside(constant)
