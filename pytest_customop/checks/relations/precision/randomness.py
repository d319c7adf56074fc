"""Whether an op may draw random numbers, which differ from dtype to dtype for one seed."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from ....cases.argument_names import names_seed
from ....cases.case import Case
from ....compat.ops import python_kernels
from ....core import rng

_DEPTH = 4  # functions that call functions
_DRAWING = (
    *(
        "rand",
        "randn",
        "randint",
        "randperm",
        "rand_like",
        "randn_like",
        "bernoulli",
        "multinomial",
    ),
    *(
        "normal",
        "uniform",
        "normal_",
        "uniform_",
        "bernoulli_",
        "random_",
        "exponential_",
        "dropout",
    ),
    *("Generator", "default_rng", "RandomState", "random", "manual_seed"),
)


def may_be_random(case: Case, call: Callable[[], Any]) -> bool:
    """Whether the op has a seed among its arguments, moves a random stream, or names what draws numbers.

    Args:
        call: calls the op.
    """
    if any(names_seed(argument.name) for argument in case.op.arguments):
        return True
    if any(name in _DRAWING for name in names_in_kernels(case)):
        return True
    rng.seed(case.seed)
    before = rng.states()
    call()
    return any(rng.changed(before, rng.states()))


def names_in_kernels(case: Case) -> Iterator[str]:
    """The names in the Python kernels of an op, and in the functions which they refer to."""
    for _, function in python_kernels(case.op.overload):
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
