"""The results of two calls of an op, and whether they agree up to rounding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
from ...cases.picture import picture_of
from ...cases.rounding import calls_differ_as_much, within_another_order
from ...cases.run import Run
from ...cases.tensors import difference, equal_values
from ..values.memory.calls import GRADIENT, Leaves, comparable, gradients_of, results
from ..values.memory.poison import ALL_NAN, fresh_memory_filled, has_new_nan


class Disagreement(NamedTuple):
    """The first result in which two calls differ.

    Args:
        name: of the result, as in `everything`.
        text: how it differs.
        picture: of the two, as `cases.picture.picture_of` makes it.
    """

    name: str
    text: str
    picture: Mapping[str, Any] | None = None

    @property
    def is_gradient(self) -> bool:
        """Whether it is a gradient."""
        return self.name.startswith(GRADIENT)

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def everything(case: Case, run: Run) -> Leaves:
    """(name, value) of the results and written arguments of a call and, if the case has them, gradients.

    There are no gradients if the backward raises: other checks report that.
    """
    return [*results(run), *(gradients_of(case, run, case.grad_outputs) or ())]


def disagreement(
    case: Case, actual: Leaves, expected: Leaves, *, same_dtypes: bool = True
) -> Disagreement | None:
    """The first difference beyond the tolerances and beyond another order of additions; None without one.

    Args:
        actual, expected: of two calls, by `everything`. Results that only one of them has are left out.
        same_dtypes: whether the dtypes of results must be equal.
    """
    expected_values = dict(expected)
    for name, value in actual:
        if name in expected_values:
            wrong = _difference(case, value, expected_values[name], same_dtypes)
            if wrong:
                return Disagreement(name, wrong, picture_of(name, value, expected_values[name]))
    return None


def _difference(case: Case, actual: Any, expected: Any, same_dtypes: bool) -> str | None:
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None if equal_values(actual, expected) else f"{actual!r} instead of {expected!r}"
    if not (comparable(actual) and comparable(expected)):
        return None
    if not same_dtypes and actual.dtype != expected.dtype:
        actual, expected = _without_limits(actual), _without_limits(expected)
        wide = torch.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(wide), expected.to(wide)
    wrong = difference(actual, expected, *case.tolerance(actual.dtype))
    if wrong is None:
        return None
    tensors = [tensor for _, tensor in case.inputs().tensors()]
    return None if within_another_order(actual, expected, tensors) else wrong


def _without_limits(tensor: torch.Tensor) -> torch.Tensor:
    """Integers as int64; the smallest and the largest of their dtype become those of int64.

    Ops use these two for missing values.
    """
    value = tensor.detach()
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        return value
    limits, widest = torch.iinfo(value.dtype), torch.iinfo(torch.int64)
    wide = value.to(torch.int64)
    wide = torch.where(value == limits.max, widest.max, wide)
    return torch.where(value == limits.min, widest.min, wide) if limits.min else wide


def shapes(leaves: Leaves) -> list[tuple[str, object]]:
    """(name, shape) of each result; the shape is None if it is no tensor."""
    return [(name, getattr(leaf, "shape", None)) for name, leaf in leaves]


def is_so_in_double(case: Case, ask: Callable[[Case], bool]) -> bool:
    """The answer of `ask` for the case in double precision; True if the device has no such dtype."""
    try:
        return ask(case.widened())
    except RuntimeError:
        return True


def in_double_if_taken(case: Case) -> Case:
    """The case in double precision; the case itself if the op or the device does not support it."""
    with contextlib.suppress(RuntimeError):  # the device has no such dtype
        wide = case.widened()
        return case if wide.eager.error is not None else wide
    return case


def is_unsteady(again: Callable[[], Leaves], first: Leaves, second: Leaves, name: str) -> bool:
    """Whether a result differs as much between equal calls as between two calls that must agree.

    A result with unwritten memory counts as unsteady: `values.uninitialized` reports it.

    Args:
        again: calls the op once more as it was called for `first`.
        first, second: of the two calls.
        name: the name of the result.
    """
    expected, actual = dict(first)[name], dict(second)[name]
    if not (isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor)):
        return not equal_values(dict(again()).get(name), expected)

    with fresh_memory_filled((), ALL_NAN, device=expected.device.type):
        filled = dict(again()).get(name)
    if isinstance(filled, torch.Tensor) and has_new_nan(filled, expected):
        return True

    def repeated() -> list[tuple[Any, Any]]:
        return [(dict(again()).get(name), expected)]

    def differs(left: Any, right: Any) -> bool:
        return not isinstance(left, torch.Tensor) or left.shape != right.shape

    if actual.shape != expected.shape:
        return any(differs(*pair) for pair in repeated())
    if not (expected.is_floating_point() or expected.is_complex()):
        return any(
            difference(left, right, 0.0, 0.0) is not None
            for _ in range(3)
            for left, right in repeated()
        )
    return calls_differ_as_much(repeated, differs, actual.to(expected.dtype), expected)
