"""Results in float64 that depend on torch's default dtype, for instance through a table made in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from ....cases.case import Case
from ....cases.code_names import names_in_code
from ....cases.tensors import is_differentiable, largest_magnitude, readable
from ...values.memory.calls import Leaves, comparable
from .randomness import may_be_random

# Functions that make a tensor in the default dtype if no other is named.
_FACTORIES = frozenset(
    {"arange", "linspace", "logspace", "tensor", "ones", "zeros", "full", "eye", "empty"}
    | {f"{name}_window" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")}
)
_GAP = 1e-11  # as a share of the largest number; float32 rounds to 6e-8


class Change(NamedTuple):
    """A result that the default dtype changes.

    Args:
        name: of the result.
        text: how far.
    """

    name: str
    text: str


def makes_tensors(case: Case) -> bool:
    """Whether the Python code of the op makes tensors that may get the default dtype."""
    return not _FACTORIES.isdisjoint(names_in_code(case.op))


def changed_by_default_dtype(case: Case, call: Callable[[], Leaves]) -> Change | None:
    """The first result or gradient that differs once float64 is the default dtype; None without one.

    An op whose calls differ anyway, or that may draw random numbers, is left alone.
    """
    first = call()
    with _default_dtype(torch.float64):
        wide = call()
    change = _difference(first, wide)
    if change is None or _difference(first, call()) is not None or may_be_random(case, call):
        return None
    return change


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _difference(first: Leaves, second: Leaves) -> Change | None:
    by_name = dict(second)
    for name, value in first:
        wide = by_name.get(name)
        if not (_is_judged(value) and _is_judged(wide)) or value.shape != wide.shape:
            continue
        if value.dtype != wide.dtype:
            continue
        actual, expected = readable(value), readable(wide)
        gap = (actual - expected).abs().nan_to_num(0.0, 0.0)
        largest = min(map(largest_magnitude, (actual, expected)))
        if float(gap.max()) > _GAP * largest:
            return Change(name, f"by up to {float(gap.max()):.1g}, of numbers up to {largest:.2g}")
    return None


def _is_judged(value: object) -> TypeGuard[Tensor]:
    return (
        isinstance(value, Tensor)
        and comparable(value)
        and value.numel() > 0
        and is_differentiable(value.dtype)
        and torch.finfo(value.dtype).eps < _GAP
    )
