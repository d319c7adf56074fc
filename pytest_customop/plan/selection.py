"""Which checks a session has, and which of them a mark gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..checks import Check, Registry
from ..declare.mark import Declaration
from ..settings import Settings


def registry_from(hook: Any) -> Registry:
    """The checks of every plugin behind a hook caller (`config.hook`, or a node's `ihook`).

    Raises:
        ValueError: for what is no check, and for a name that is given twice.
    """
    found = hook.pytest_customop_register_checks()
    return Registry(check for checks in reversed(found) for check in _listed(checks))


def _listed(checks: Any) -> Iterable[Any]:
    if isinstance(checks, Check):
        raise ValueError(
            f"pytest_customop_register_checks returned the check {checks.name}: return a list"
        )
    return checks or ()


def select_checks(registry: Registry, declaration: Declaration, settings: Settings) -> list[Check]:
    """The checks of a declaration: those its mark selects, of those the session selects.

    Raises:
        ValueError: for a name in the mark that is not known.
    """
    wrong = registry.unknown(declaration.checks or ())
    if wrong:
        raise ValueError(wrong)
    if settings.checks is None:
        return registry.select(declaration.checks)
    known = [name for name in settings.checks if registry.unknown([name]) is None]
    if not known:
        return []
    if declaration.checks is None:
        return registry.select(known)
    chosen = registry.select(declaration.checks)
    allowed = {check.name for check in registry.select(known)}
    asked = declaration.checks or ()
    return [
        check
        for check in chosen
        if check.name in allowed or (check.name in asked and check.family in known)
    ]
