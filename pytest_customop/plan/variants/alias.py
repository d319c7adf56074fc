"""Variants that pass one tensor as two arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument

_LOWEST, _HIGHEST = (-1, 0), (0, 1)  # limits of values that an op may rely on


def steps(view: SampleView) -> Iterator[Step]:
    """Each pair of arguments of equal shape and dtype.

    If the op writes to neither, both must require gradients, or neither: the op may have no gradient for
    the other one. If it writes to one of them, eager and functionalized code may rightly differ, so the
    variant is beyond the sample.
    """
    whole = [tensor for tensor in view.tensors if "[" not in tensor.path]
    for first, second in combinations(whole, 2):
        written = first.mutated or second.mutated
        if first.wants_grad != second.wants_grad and not written:
            continue
        if (first.shape, first.dtype) == (second.shape, second.dtype):
            change: dict[str, Any] = {second.path: SameAs(first.path)}
            if not _fits(first, second) and _fits(second, first):
                change[first.path] = second.spec
            description = f"{second.path} is the very tensor given as {first.path}"
            rank = 12 if written else 7
            name = f"{second.path}.is.{first.path}"
            yield Step(name, description, change, rank, beyond=_beyond(first, second))


def _beyond(first: TensorArgument, second: TensorArgument) -> str | None:
    """Why two equal tensors leave what the sample shows; None if they do not.

    The integers of two tensors may belong together.
    """
    if first.mutated or second.mutated:
        return "a tensor that is written to, given twice"
    if first.holds_positions:
        return "integers of two tensors made equal"
    if not _fits(first, second) and not _fits(second, first):
        return "one tensor for two with values in different ranges"
    return None


def _fits(values: TensorArgument, argument: TensorArgument) -> bool:
    """Whether an argument can have the values of another one, as far as the sample shows.

    It cannot if its own are probabilities, cosines or not negative, and the others are not.
    """
    if values.value_limits is None or argument.value_limits is None:
        return True
    low, high = values.value_limits
    own_low, own_high = argument.value_limits
    return not (
        any(low < limit <= own_low for limit in _LOWEST)
        or any(own_high <= limit < high for limit in _HIGHEST)
    )
