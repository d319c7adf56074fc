"""Whether two results differ by rounding only: by exact values, or by what additions can explain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .tensors import difference, in_double, is_differentiable, largest_magnitude

# Of a result that sums up many numbers in half precision nothing is left; that is no reason to allow
# everything.
_LARGEST_SHARE = 0.125
_CALLS = 3  # values that differ by chance may be equal in two of them
_TIMES = 8  # further calls would differ more than a few do


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

    The partial sums are taken to be as large as the largest element of the results and of the arguments:
    `share_of_order` of that.

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

    A sum of n numbers, added up in another order, differs by some sqrt(n) roundings of the largest
    partial sum. An op does not say which numbers it adds. So n is the number of elements of its largest
    argument. The rounding is that of the coarsest dtype among them, or that of float32 where the results
    have no more digits: 4 * eps * sqrt(n), and at most an eighth.

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
    """Whether float32 has every number of a result in double precision, and they are not all whole."""
    if tensor.dtype not in (torch.float64, torch.complex128):
        return False
    value = in_double(tensor)
    parts = torch.view_as_real(value) if value.is_complex() else value
    rounded = parts.to(torch.float32).to(torch.float64)
    return bool((rounded == parts).all()) and not bool((parts == parts.round()).all())


def within_another_order(
    actual: torch.Tensor, expected: torch.Tensor, arguments: Iterable[torch.Tensor]
) -> bool:
    """Whether another order of additions explains how two results of equal calls differ.

    Whole numbers are exact in any order. What is NaN or infinite in one result must be so in the other.
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
    """Whether an op differs from call to call as much as two results of it do.

    Args:
        repeated: calls the op again; returns each result of the call with that of the first one.
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
        pairs: of results of two equal calls. What cannot be compared so is left out.
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
