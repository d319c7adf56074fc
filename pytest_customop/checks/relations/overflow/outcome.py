"""Whether a result is wrong because a number overflowed on the way to it."""

from __future__ import annotations

import linecache
import math
import os
from typing import NamedTuple

import torch

from ....cases.run import Run
from ....cases.tensors import is_differentiable
from ....compat.shadow_values import Followed, Overflow, ShadowValues
from ....core.wording import dtype_name
from ...values.memory.calls import comparable, results


class Wrong(NamedTuple):
    """A result that an overflow changed.

    Args:
        cause: what overflowed, and where.
        result: the name of the result.
        how: how it differs.
        element: the index of the first wrong element, counted through; None if the sizes differ.
        exact: what that element should be, or the sizes that the result should have.
    """

    cause: str
    result: str
    how: str
    element: int | None
    exact: float | list[int]


def first_wrong(run: Run, shadows: ShadowValues, *, decisions: bool) -> Wrong | None:
    """The first result that an overflow changed, and whose dtype has room for the right numbers.

    Args:
        run: the call that `shadows` followed.
        decisions: whether floating-point results are left out.
    """
    for name, result in results(run):
        if isinstance(result, torch.Tensor) and comparable(result):
            if decisions and is_differentiable(result.dtype):
                continue
            followed = shadows.overflow_in(result)
            wrong = None if followed is None else _wrong(name, result.detach(), followed)
            if wrong is not None:
                return wrong
    return None


def first_wrong_of_numpy(run: Run, wide: Run, cause: Overflow) -> Wrong | None:
    """The first result that an overflow in numpy changed, and whose dtype has room for the right numbers.

    Args:
        run: the call with the kernel's own arrays.
        wide: the call with arrays of int64.
        cause: the first overflow.
    """
    expected = dict(results(wide))
    for name, result in results(run):
        other = expected.get(name)
        if isinstance(result, torch.Tensor) and isinstance(other, torch.Tensor):
            exact = other.detach() if other.shape == result.shape else None
            wrong = _wrong(name, result.detach(), Followed(cause, exact, other.shape))
            if wrong is not None:
                return wrong
    return None


def first_other_decision(run: Run, wide: Run, shadows: ShadowValues) -> Wrong | None:
    """The first position or decision that is another one for the same numbers in a wider dtype.

    Args:
        run: the call that `shadows` followed.
        wide: the call in the wider dtype.
    """
    expected = dict(results(wide)) if wide.error is None else {}
    for name, result in results(run):
        other = expected.get(name)
        if not (isinstance(result, torch.Tensor) and isinstance(other, torch.Tensor)):
            continue
        if is_differentiable(result.dtype) or result.shape != other.shape:
            continue
        wrong = (result != other).flatten()
        if bool(wrong.any()):
            first = int(wrong.nonzero()[0])
            exact = other.flatten()[first].item()
            how = (
                f"{int(wrong.sum())} of {wrong.numel()} elements differ from those for the same numbers "
                f"in float32; element {first} is {result.flatten()[first].item()} instead of {exact}"
            )
            return Wrong(
                "" if shadows.first is None else _cause(shadows.first), name, how, first, exact
            )
    return None


def _wrong(name: str, result: torch.Tensor, followed: Followed) -> Wrong | None:
    if is_differentiable(result.dtype) and _is_rounding(followed.cause):
        return None
    cause = _cause(followed.cause)
    if followed.exact is None:
        sizes = list(followed.sizes)
        how = f"its sizes are {list(result.shape)} instead of {sizes}"
        return Wrong(cause, name, how, None, sizes)
    actual, exact = result.flatten(), followed.exact.flatten()
    wrong = _differs(actual, exact) & _fits(exact, result.dtype)
    wrong &= ~_is_saturated(actual, exact, followed.cause.dtype)
    places = wrong.nonzero().flatten().tolist()
    if not places:
        return None
    first = places[0]
    how = (
        f"{len(places)} of {actual.numel()} elements differ; element {first} is "
        f"{_number(actual[first])} instead of {_number(exact[first])}"
    )
    return Wrong(cause, name, how, first, exact[first].item())


def _is_rounding(cause: Overflow) -> bool:
    """Whether half precision rounded a count; in a floating-point result that is rounding like any."""
    return cause.dtype in (torch.bfloat16, torch.float16) and math.isfinite(cause.actual)


def _differs(actual: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    if not actual.dtype.is_floating_point:
        return actual != exact
    return ~torch.isclose(actual.double(), exact.double(), rtol=1e-2, atol=1e-6, equal_nan=True)


def _is_saturated(actual: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where the code noticed that a number of `dtype` overflowed, and took the largest one instead."""
    known = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    wide = exact if exact.dtype.is_floating_point else exact.long()
    return actual == wide.clamp(known.min, known.max)


def _fits(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype in (torch.bool, torch.int64) or dtype.is_complex:
        return torch.ones_like(exact, dtype=torch.bool)
    known = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return (exact >= known.min) & (exact <= known.max)


def _cause(cause: Overflow) -> str:
    place = f"the operator {cause.operator}"
    if cause.file:
        line = linecache.getline(cause.file, cause.line).strip()
        place = f"`{line}` ({os.path.basename(cause.file)}:{cause.line})"
    is_rounded = cause.dtype == torch.float32 or _is_rounding(cause)
    verb = "loses digits in" if is_rounded else "overflows"
    change = f"{_number(cause.exact)} becomes {_number(cause.actual)}"
    return f"{place} {verb} {dtype_name(cause.dtype)}: {change}"


def _number(value: torch.Tensor | float) -> str:
    number = value.item() if isinstance(value, torch.Tensor) else value
    return f"{number:.12g}" if isinstance(number, float) else str(number)
