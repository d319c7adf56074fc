"""The checks: one module a family, and the registry that says what a check is."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..findings import Explanation, Finding
from .check import BODY, Check, Registry, selects_body

__all__ = ["BODY", "Check", "Registry", "builtin_checks", "catalogue", "fix_for", "selects_body"]


def builtin_checks() -> list[Check]:
    """The checks that come with the package."""
    from . import backward
    from .compile import autocast
    from .compile import checks as compile
    from .errors import checks as errors
    from .export import checks as export
    from .fake import checks as fake
    from .fake import data_dependent
    from .gradcheck import checks as gradcheck
    from .opcheck import checks as opcheck
    from .reference import checks as reference
    from .state import checks as state
    from .values import checks as values
    from .vmap import checks as vmap

    modules = (
        opcheck,
        values,
        state,
        fake,
        compile,
        gradcheck,
        backward,
        data_dependent,
        autocast,
        reference,
        errors,
        vmap,
        export,
    )
    return [check for module in modules for check in module.CHECKS]


@functools.cache
def catalogue() -> Mapping[str, Explanation]:
    """The explanation of every code that a built-in check reports.

    Raises:
        ValueError: if a code is explained twice.
    """
    from ..findings import eager, faults, more
    from .backward import findings as backward
    from .compile import findings as compile
    from .fake import findings as fake
    from .gradcheck import findings as gradcheck
    from .opcheck import findings as opcheck
    from .state import findings as state
    from .values import findings as values

    families = (eager, faults, opcheck, state, values, fake, backward, gradcheck, compile, more)
    merged: dict[str, Explanation] = {}
    for family in families:
        twice = merged.keys() & family.ENTRIES.keys()
        if twice:
            raise ValueError(f"finding {min(twice)!r} is explained twice")
        merged |= family.ENTRIES
    return merged


def fix_for(finding: Finding) -> str:
    """What to change: the finding's own words, or those of the catalogue.

    Raises:
        ValueError: for a code that is not in the catalogue and brings no fix of its own.
    """
    if finding.fix is not None:
        return finding.fix
    if finding.code not in catalogue():
        raise ValueError(
            f"finding {finding.code!r} is not in the catalogue: give it a fix of its own"
        )
    return catalogue()[finding.code].fix
