"""Judge whether two results differ only by rounding: by exact values, or by the order of additions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .tensors import difference, in_double, is_differentiable, largest_magnitude

# A sum of many numbers in half precision may lose all its digits; this limit keeps everything from being
# allowed.
_LARGEST_SHARE = 0.125
_CALLS = 3  # in fewer calls, values that differ by chance may be equal
_TIMES = 8  # more calls would differ by more than these few do


def within_rounding(
    actual: torch.Tensor,
    expected: torch.Tensor,
    exact: torch.Tensor | None,
    tolerance: tuple[float, float],
) -> bool:
    """Whether `actual` is about as near to the exact values as `expected` is.

    Args:
        actual, expected: of one shape, differing by more than the tolerance.
        exact: the same values computed in double precision; None where that is not possible.
        tolerance: (rtol, atol).
    """
    if exact is None or exact.shape != expected.shape or not is_differentiable(expected.dtype):
        return False
    actual_values, expected_values, exact_values = (
        in_double(values) for values in (actual, expected, exact)
    )
    finite = torch.isfinite(expected_values)
    if not torch.equal(torch.isfinite(actual_values), finite) or not bool(finite.any()):
        return False
    if not bool(torch.isfinite(exact_values[finite]).all()):
        return False
    actual_values, expected_values, exact_values = (
        actual_values[finite],
        expected_values[finite],
        exact_values[finite],
    )
    rtol, atol = tolerance
    unit = rtol * float(exact_values.abs().max())
    error_of_expected = min(float((expected_values - exact_values).abs().max()), 16 * unit)
    return (
        float((actual_values - exact_values).abs().max()) <= 4 * error_of_expected + 4 * unit + atol
    )


def allowed_by_order(
    actual: torch.Tensor, expected: torch.Tensor, arguments: Iterable[torch.Tensor]
) -> float:
    """How far two results may differ because an op adds up the same numbers in another order.

    It is the share from `share_of_order` of the largest partial sum, which is taken to be the largest
    element of the results and the arguments.

    Args:
        actual, expected: two results, of floating-point or complex dtype.
        arguments: the arguments of the op.
    """
    floating = [tensor for tensor in arguments if is_differentiable(tensor.dtype)]
    share = share_of_order(actual, expected, floating)
    return share * max(
        largest_magnitude(in_double(tensor)) for tensor in (actual, expected, *floating)
    )


def share_of_order(
    actual: torch.Tensor, expected: torch.Tensor, arguments: Iterable[torch.Tensor]
) -> float:
    """The share of the largest partial sum by which another order of additions changes a sum.

    A sum of n numbers, added up in another order, differs by about sqrt(n) roundings of the largest
    partial sum. Which numbers an op adds is unknown, so n is the number of elements of its largest
    argument. eps is that of the coarsest dtype among `expected` and the arguments, and at least float32's
    where the results have no more digits. The share is 4 * eps * sqrt(n), and at most an eighth.

    Args:
        actual, expected, arguments: as in `allowed_by_order`.
    """
    floating = [tensor for tensor in arguments if is_differentiable(tensor.dtype)]
    count = max((tensor.numel() for tensor in floating), default=1)
    eps = max(torch.finfo(tensor.dtype).eps for tensor in (expected, *floating))
    if _is_single(actual) and _is_single(expected):
        eps = max(eps, torch.finfo(torch.float32).eps)
    return min(_LARGEST_SHARE, 4 * eps * math.sqrt(max(count, 1)))


def _is_single(tensor: torch.Tensor) -> bool:
    """Whether a double-precision result holds only float32 values, and not only integers."""
    if tensor.dtype not in (torch.float64, torch.complex128):
        return False
    value = in_double(tensor)
    parts = torch.view_as_real(value) if value.is_complex() else value
    rounded = parts.to(torch.float32).to(torch.float64)
    return bool((rounded == parts).all()) and not bool((parts == parts.round()).all())


def within_another_order(
    actual: torch.Tensor, expected: torch.Tensor, arguments: Iterable[torch.Tensor]
) -> bool:
    """Whether another order of additions explains the difference between two results of equal calls.

    Integers are exact in any order. NaN and infinite elements must be the same in both results.
    """
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return False
    if not is_differentiable(expected.dtype):
        return False
    actual_values, expected_values = in_double(actual), in_double(expected)
    allowed = allowed_by_order(actual, expected, arguments)
    return bool(
        torch.isclose(actual_values, expected_values, rtol=0.0, atol=allowed, equal_nan=True).all()
    )


def calls_differ_as_much(
    repeated: Callable[[], Sequence[tuple[Any, Any]]],
    differs: Callable[[Any, Any], bool],
    actual: torch.Tensor,
    expected: torch.Tensor,
) -> bool:
    """Whether repeated calls of an op differ as much as two of its results do.

    Args:
        repeated: calls the op again; returns each result with that of the first call.
        differs: whether two results of equal calls differ by more than the tolerance.
        actual, expected: the two results.
    """
    spread = 0.0
    for _ in range(_CALLS):
        pairs = repeated()
        if any(differs(first, second) for first, second in pairs):
            return True
        spread = max(spread, relative_spread(pairs))
    allowed = _TIMES * spread * largest_magnitude(in_double(expected))
    return bool(spread) and difference(actual, expected, 0.0, allowed) is None


def relative_spread(pairs: Iterable[tuple[object, object]]) -> float:
    """The largest difference between the tensors of each pair, relative to the largest element.

    Args:
        pairs: results of two equal calls. Those that cannot be compared are left out.
    """
    spread = 0.0
    for actual, expected in pairs:
        if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
            continue
        if actual.shape != expected.shape or not is_differentiable(expected.dtype):
            continue
        actual_values, expected_values = in_double(actual), in_double(expected)
        largest = largest_magnitude(expected_values)
        spread = max(
            spread, largest_magnitude(actual_values - expected_values) / largest if largest else 0.0
        )
    return spread
