"""The names in the Python code of an op: what it may call."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ..compat.ops import python_kernels
from ..declare.ops import Op

_DEPTH = 4  # functions that call functions


def names_in_code(op: Op) -> Iterator[str]:
    """The names in the Python kernels of an op, and in the functions which they refer to."""
    for _, function in python_kernels(op.overload):
        yield from _names(function, _DEPTH, set())


def _names(function: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """The names in the code of a function, and in that of the functions which it refers to."""
    function = getattr(function, "__wrapped__", function)  # of functools.cache
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or depth == 0 or id(code) in seen:
        return
    seen.add(id(code))
    for one in _inside(code):
        yield from one.co_names
        for name in one.co_names:
            yield from _names(function.__globals__.get(name), depth - 1, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _names(cell.cell_contents, depth - 1, seen)
        except ValueError:  # not filled yet
            continue


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and that of the functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _inside(constant)
