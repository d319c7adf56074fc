"""Whether an op may draw random numbers, which differ from dtype to dtype for one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....cases.argument_names import names_seed
from ....cases.case import Case
from ....cases.code_names import names_in_code
from ....core import rng

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
    if any(name in _DRAWING for name in names_in_code(case.op)):
        return True
    rng.seed(case.seed)
    before = rng.states()
    call()
    return any(rng.changed(before, rng.states()))
