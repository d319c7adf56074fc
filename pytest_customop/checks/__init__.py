"""The checks: one module a family, and the registry that says what a check is."""

from __future__ import annotations

from .registry import BODY, Check, Registry, selects_body

__all__ = ["BODY", "Check", "Registry", "builtin_checks", "selects_body"]


def builtin_checks() -> list[Check]:
    """The checks that come with the package."""
    from . import backward, errors, export, reference, state, values, vmap
    from .compile import autocast
    from .compile import checks as compile
    from .fake import checks as fake
    from .fake import data_dependent
    from .gradcheck import checks as gradcheck
    from .opcheck import checks as opcheck

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
