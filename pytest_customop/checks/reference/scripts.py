"""Lines of a script that compare one tensor of the op with the reference's; see `Check.repro`."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...cases.case import Case
from ...cases.tensors import readable


def first_difference(
    own: torch.Tensor, wanted: torch.Tensor, tolerance: tuple[float, float]
) -> Any:
    """The index of the first element that differs, and the value due there."""
    mine, theirs = readable(own), readable(wanted)
    kind = torch.complex128 if mine.is_complex() else torch.float64
    close = torch.isclose(
        mine.to(kind), theirs.to(kind), rtol=tolerance[0], atol=tolerance[1], equal_nan=True
    )
    index = tuple((~close).nonzero()[0].tolist())
    return index, theirs[index].item()


def assertion(case: Case, own: torch.Tensor, wanted: torch.Tensor | None) -> str:
    """Lines that compare `found` with what is due."""
    if wanted is None:
        return "assert found is None or not found.any()\n"
    facts = f"assert (found.shape, found.dtype) == ({tuple(wanted.shape)}, {wanted.dtype})\n"
    if own.shape != wanted.shape or own.dtype != wanted.dtype:
        return facts
    rtol, atol = case.tolerance(own.dtype)
    index, due = first_difference(own, wanted, (rtol, atol))
    got = f"got = found[{index}].item()\n"
    if due != due:
        return f"{got}assert got != got, got  # the reference gives NaN\n"
    if due in (math.inf, -math.inf):
        return f'{got}assert got == float("{due}"), got  # by the reference\n'
    return (
        f"{got}due = {due!r}  # by the reference\n"
        f"assert got == due or abs(got - due) <= {atol} + {rtol} * abs(due), (got, due)\n"
    )
