"""Variants that pass one tensor as two arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ...declare.inputs import SameAs
from ...declare.variant import Step
from .sample_view import SampleView, TensorArgument


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
            change = {second.path: SameAs(first.path)}
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
    return "integers of two tensors made equal" if first.holds_positions else None
