"""Every entry of the catalogue, by code."""

from __future__ import annotations

from ..checks.compile import findings as compile
from ..checks.fake import findings as fake
from ..checks.gradcheck import findings as gradcheck
from ..checks.opcheck import findings as opcheck
from . import backward, eager, faults, more, state, values
from .entry import Explanation

FAMILIES = (eager, faults, opcheck, state, values, fake, backward, gradcheck, compile, more)


def _merged() -> dict[str, Explanation]:
    merged: dict[str, Explanation] = {}
    for family in FAMILIES:
        twice = merged.keys() & family.ENTRIES.keys()
        if twice:
            raise ValueError(f"finding {min(twice)!r} is in the catalogue twice")
        merged |= family.ENTRIES
    return merged


CATALOGUE = _merged()
