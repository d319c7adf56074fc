"""Whether two results differ by no more than rounding, where double precision can tell."""

from __future__ import annotations

import torch

from .tensors import in_double, is_differentiable


def within_rounding(
    actual: torch.Tensor,
    expected: torch.Tensor,
    exact: torch.Tensor | None,
    tolerance: tuple[float, float],
) -> bool:
    """Whether `actual` is as near to the exact values as `expected` is.

    Args:
        actual, expected: of one shape, differing by more than the tolerance.
        exact: the same in double precision; None where nobody can tell.
        tolerance: (rtol, atol).
    """
    if exact is None or exact.shape != expected.shape or not is_differentiable(expected.dtype):
        return False
    mine, theirs, truth = (in_double(one) for one in (actual, expected, exact))
    finite = torch.isfinite(theirs)
    if not torch.equal(torch.isfinite(mine), finite) or not bool(finite.any()):
        return False
    if not bool(torch.isfinite(truth[finite]).all()):
        return False
    mine, theirs, truth = mine[finite], theirs[finite], truth[finite]
    rtol, atol = tolerance
    unit = rtol * float(truth.abs().max())
    own = min(float((theirs - truth).abs().max()), 16 * unit)
    return float((mine - truth).abs().max()) <= 4 * own + 4 * unit + atol
