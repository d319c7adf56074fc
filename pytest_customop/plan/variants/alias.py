"""Variants that pass one tensor as two arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument


def steps(view: SampleView) -> Iterator[Step]:
    """Each pair of arguments of equal shape and dtype that the op does not write to."""
    whole = [each for each in view.tensors if not each.mutated and "[" not in each.path]
    for one, other in combinations(whole, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            description = f"{other.path} is the very tensor given as {one.path}"
            name = f"{other.path}.is.{one.path}"
            change = {other.path: SameAs(one.path)}
            yield Step(name, description, change, 7, beyond=_beyond(one))


def _beyond(each: TensorArgument) -> str | None:
    """Equal values leave what the sample shows where whole numbers could belong together."""
    return "whole numbers of two tensors made equal" if each.holds_positions else None
