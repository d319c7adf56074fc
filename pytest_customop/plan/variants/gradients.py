"""Variants in which only some of the inputs require gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from ...declare.variant import Step
from .sample_view import SampleView

_ALL_SUBSETS = 3  # with more inputs, only each alone and all but each


def steps(view: SampleView) -> Iterator[Step]:
    """Each subset of the inputs that can require gradients, except none and all of them."""
    able = [tensor for tensor in view.tensors if tensor.wants_grad]
    for count in range(1, len(able)):
        if len(able) > _ALL_SUBSETS and count not in (1, len(able) - 1):
            continue
        for some in combinations(able, count):
            names = [tensor.path for tensor in some]
            changes = {
                tensor.path: replace(tensor.spec, requires_grad=tensor.path in names)
                for tensor in able
            }
            description = f"only {' and '.join(names)} requires gradients"
            yield Step("grad." + ".".join(names), description, changes, 6 if count == 1 else 11)
