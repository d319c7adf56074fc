"""Positions of two dtypes that are larger, or have larger numbers beside them, as for a product of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any

import torch

from ...cases.argument_names import names_dims, names_seed
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.documented_integers import allows, integer_range
from ...cases.tensors import base_name
from ...findings import CheckSkipped
from ..values.memory.calls import Caller, plain_arguments, with_argument
from ..values.memory.limited_copy import answer_of_copy
from .compare import Disagreement, disagreement, everything

SMALL = 2**15  # products of two numbers below it fit int32
_BITS = 2**32
_MEMORY = 2**30  # bytes that calls with a larger number may take


def larger_bounds(case: Case, positions: list[str]) -> Iterator[dict[str, int]]:
    """Larger values for what positions stay below: a number of nodes, or a list with the sizes of a grid.

    With them, a product as in `row * nodes + column` exceeds 32 bits.
    """
    if case.base_case is not None:
        return
    tensors = dict(case.inputs().tensors())
    highest = max(
        (int(tensors[name].max()) for name in positions if tensors[name].numel()), default=0
    )
    if highest < 2:
        return
    most_dims = max(tensor.dim() for tensor in tensors.values())
    lists: dict[str, dict[str, int]] = {}
    for name, value in plain_arguments(case.inputs()):
        base = base_name(name)
        if type(value) is not int or not highest <= value <= SMALL:
            continue
        if names_dims(base) and value < most_dims:
            continue
        if base != name:
            lists.setdefault(base, {})[name] = value
        elif value > highest and not names_seed(name):
            yield {name: _BITS // highest + 7}
    for places in lists.values():
        if len(places) > 1:  # the first size of a grid is no factor
            yield dict.fromkeys(places, 7 + ceil((_BITS / highest) ** (1 / (len(places) - 1))))


def documented_numbers(case: Case, positions: list[str]) -> Iterator[dict[str, int]]:
    """For each of the positions, the largest of a documented range, as far as int32 holds it."""
    tensors = dict(case.inputs().tensors())
    for name in positions if case.base_case is None else ():
        documented = integer_range(case.op, base_name(name))
        if documented is not None and allows(documented, tensors[name]):
            yield {name: min(documented.high, _BITS // 2 - 1)}


def disagreement_with(
    case: Case, bounds: Mapping[str, int], cast: Callable[[Arguments], Arguments]
) -> Disagreement | None:
    """How results differ where positions are cast, with larger numbers; None where there is no difference.

    The calls are made in a copy of this process. Without one, there is no difference.

    Args:
        bounds: the numbers, by argument; those of a tensor are all that one.
        cast: gives the positions another dtype.
    """

    def ask(plain: Case) -> Disagreement | None:
        calls = Caller(plain)
        runs = []
        for arguments in (plain.inputs(), cast(plain.inputs())):
            tensors = dict(arguments.tensors())
            for name, bound in bounds.items():
                if name in tensors:
                    tensors[name].fill_(bound)
                else:
                    arguments = with_argument(arguments, name, bound)
            runs.append(calls(arguments))
        if any(run.error is not None for run in runs):
            return None
        expected, actual = (everything(plain, run) for run in runs)
        wrong = disagreement(plain, actual, expected, same_dtypes=False)
        if wrong is None or not _can_be_equal(dict(actual)[wrong.name], dict(expected)[wrong.name]):
            return None
        return wrong

    try:
        return answer_of_copy(case, ask, memory=_MEMORY)
    except CheckSkipped:  # it takes too long, or more memory
        return None


def _can_be_equal(actual: Any, expected: Any) -> bool:
    """Whether both results are of int64, or int32 can hold all integers of the one that is."""
    both = [result for result in (actual, expected) if isinstance(result, torch.Tensor)]
    wide = [result for result in both if result.dtype == torch.int64]
    return len(wide) != 1 or bool((wide[0].abs() < _BITS // 2).all())
