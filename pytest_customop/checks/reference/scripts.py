"""Script lines that compare one tensor of the op with the reference's; see `Check.repro`."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...cases.case import Case
from ...cases.tensors import readable


def first_difference(
    actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float]
) -> Any:
    """The index of the first element that differs, and the expected value there."""
    actual_values, expected_values = readable(actual), readable(expected)
    kind = torch.complex128 if actual_values.is_complex() else torch.float64
    close = torch.isclose(
        actual_values.to(kind),
        expected_values.to(kind),
        rtol=tolerance[0],
        atol=tolerance[1],
        equal_nan=True,
    )
    index = tuple((~close).nonzero()[0].tolist())
    return index, expected_values[index].item()


def assertion(case: Case, actual: torch.Tensor, expected: torch.Tensor | None) -> str:
    """Lines that compare `found` with the expected tensor; if that is None, with None or zeros."""
    if expected is None:
        return "assert found is None or not found.any()\n"
    facts = f"assert (found.shape, found.dtype) == ({tuple(expected.shape)}, {expected.dtype})\n"
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return facts
    rtol, atol = case.tolerance(actual.dtype)
    index, expected_value = first_difference(actual, expected, (rtol, atol))
    line = f"got = found[{index}].item()\n"
    if expected_value != expected_value:
        return f"{line}assert got != got, got  # the reference gives NaN\n"
    if expected_value in (math.inf, -math.inf):
        return f'{line}assert got == float("{expected_value}"), got  # by the reference\n'
    return (
        f"{line}due = {expected_value!r}  # by the reference\n"
        f"assert got == due or abs(got - due) <= {atol} + {rtol} * abs(due), (got, due)\n"
    )
