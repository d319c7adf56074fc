"""Variants that pass one tensor as two arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument


def steps(view: SampleView) -> Iterator[Step]:
    """Each pair of arguments of equal shape and dtype.

    Both may require gradients, or neither: an op need have none for the other one.

    Where the op writes to one of them, eager and functionalized code may rightly differ, so that is
    beyond the sample.
    """
    whole = [each for each in view.tensors if "[" not in each.path]
    for one, other in combinations(whole, 2):
        written = one.mutated or other.mutated
        if one.wants_grad != other.wants_grad and not written:
            continue
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            change = {other.path: SameAs(one.path)}
            description = f"{other.path} is the very tensor given as {one.path}"
            rank = 12 if written else 7
            name = f"{other.path}.is.{one.path}"
            yield Step(name, description, change, rank, beyond=_beyond(one, other))


def _beyond(one: TensorArgument, other: TensorArgument) -> str | None:
    """Why two equal tensors leave what the sample shows; None if they do not.

    Whole numbers of two tensors may belong together.
    """
    if one.mutated or other.mutated:
        return "a tensor that is written to, given twice"
    return "whole numbers of two tensors made equal" if one.holds_positions else None
