"""Compare two results with exact values, to find out whether they differ by rounding only."""

from __future__ import annotations

import torch

from .tensors import in_double, is_differentiable


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
    got, wanted, truth = (in_double(one) for one in (actual, expected, exact))
    finite = torch.isfinite(wanted)
    if not torch.equal(torch.isfinite(got), finite) or not bool(finite.any()):
        return False
    if not bool(torch.isfinite(truth[finite]).all()):
        return False
    got, wanted, truth = got[finite], wanted[finite], truth[finite]
    rtol, atol = tolerance
    unit = rtol * float(truth.abs().max())
    error_of_expected = min(float((wanted - truth).abs().max()), 16 * unit)
    return float((got - truth).abs().max()) <= 4 * error_of_expected + 4 * unit + atol
