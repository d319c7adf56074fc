"""Which variants of a sample are worth a call, the likeliest to find something first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from ...cases.arguments import Placement
from ...cases.case import seed_of
from ...declare.inputs import Sample, TensorSpec
from ...declare.ops import Op
from ...declare.variant import Step, Variant
from . import alias, arguments, dtype, gradients, layout, shape, values
from .sample_view import SampleView

ONLY_FULL = 10  # the rank from which on a step belongs to the full set only
_STEPS: dict[str, Callable[[SampleView], Iterable[Step]]] = {
    "layout": layout.steps,
    "shape": shape.steps,
    "values": values.steps,
    "positions": values.positions,
    "special": values.special,
    "arguments": arguments.steps,
    "gradients": gradients.steps,
    "alias": alias.steps,
}


def chosen(
    op: Op,
    sample: Sample,
    where: Placement,
    *,
    kinds: Collection[str],
    declared_dtypes: bool,
    seed: int,
    seen: set[Any],
) -> Iterator[Variant]:
    """The variants of a sample, in the order in which they are worth their time.

    Args:
        where: the case that they stand beside.
        kinds: of `KINDS`.
        declared_dtypes: whether the mark or the session says which dtypes the op supports.
        seed: orders the steps that are equally likely to find something.
        seen: the signatures of what is tried already; the variants' are added.
    """
    view = SampleView(op, sample, where)
    seen.add(signature(sample))
    found = [(step, kind) for kind in kinds for step in _steps(view, kind, declared_dtypes)]
    found.sort(key=lambda one: (one[0].rank, _turn(seed, op.name, one[0].name)))
    for step, kind in found:
        changed = view.changed(step)
        mark = signature(changed)
        if mark not in seen:
            seen.add(mark)
            likely = step.rank < ONLY_FULL
            yield Variant(kind, step.name, step.description, changed, step.reads_beyond, likely)


@cache
def _turn(*parts: object) -> int:
    """The place of a step among equally likely ones; the same steps come for every sample."""
    return seed_of(*parts)


def _steps(view: SampleView, kind: str, declared_dtypes: bool) -> Iterable[Step]:
    if kind == "dtype":
        return dtype.steps(view, declared_dtypes)
    return _STEPS[kind](view)


def signature(sample: Sample) -> Any:
    """What tells samples apart: equal for two that describe the same call."""
    named = sorted((name, _signed(value)) for name, value in sample.kwargs.items())
    return tuple(map(_signed, sample.args)), tuple(named)


def _signed(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        if isinstance(value.values, torch.Tensor):
            return f"{value.values.data_ptr()} {replace(value, values=None)!r}"
        return repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(_signed, value))
    if isinstance(value, torch.Tensor):
        return f"tensor {id(value)}"
    return repr(value)
