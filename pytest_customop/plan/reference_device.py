"""The device of a mark that its other devices are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..declare.declaration import Declaration
from .cells import skip_reason
from .items import CaseCell


def reference_device(present: Sequence[str]) -> str | None:
    """The device that the others are compared with: the CPU if it is there, or the first.

    Args:
        present: the available devices of the mark, in order.
    """
    return "cpu" if "cpu" in present else next(iter(present), None)


def compared_with(declaration: Declaration, entry: CaseCell, reference: str | None) -> CaseCell:
    """The same case, with the device that it is compared with.

    There is none on that device itself, or if the mark's `skip_if` leaves the case out there.
    """
    if reference in (None, entry.cell.device) or entry.unsupported:
        return entry
    assert reference is not None
    if skip_reason(declaration, replace(entry.cell, device=reference)) is not None:
        return entry
    return replace(entry, case=replace(entry.case, reference_device=reference))
