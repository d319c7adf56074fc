"""Variants that pass one tensor as two arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView


def steps(view: SampleView) -> Iterator[Step]:
    """Each pair of arguments of equal shape and dtype that the op does not write to."""
    whole = [each for each in view.tensors if not each.mutated and "[" not in each.path]
    for one, other in combinations(whole, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            description = f"{other.path} is the very tensor given as {one.path}"
            name = f"{other.path}.is.{one.path}"
            yield Step(name, description, {other.path: SameAs(one.path)}, 7)
