"""The checks: one module a family, and the registry that says what a check is."""

from __future__ import annotations

from .registry import BODY, Check, Registry, selects_body

__all__ = ["BODY", "Check", "Registry", "builtin_checks", "selects_body"]


def builtin_checks() -> list[Check]:
    """The checks that come with the package."""
    from . import backward, compile, fake, gradcheck, opcheck

    modules = (opcheck, fake, compile, gradcheck, backward)
    return [check for module in modules for check in module.CHECKS]
