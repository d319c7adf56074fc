"""Variants that give one tensor twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView


def steps(view: SampleView) -> Iterator[Step]:
    """Each pair of arguments of one shape and dtype; none that the op writes to."""
    whole = [each for each in view.tensors if not each.mutated and "[" not in each.path]
    for one, other in combinations(whole, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            words = f"{other.path} is the very tensor given as {one.path}"
            yield Step(f"{other.path}.is.{one.path}", words, {other.path: SameAs(one.path)}, 7)
