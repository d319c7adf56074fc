"""The checks of a session, and the ones that a mark selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..checks import BODY, Check, Registry
from ..core.hooks import HookError, call_hook, implemented_at
from ..declare.declaration import Declaration
from ..settings import Settings
from .known import validate_known


def registry_from(hook: Any) -> Registry:
    """The checks that the plugins and conftests of a hook caller register.

    Args:
        hook: `config.hook`, or a node's `ihook`.

    Raises:
        HookError: for anything but checks, for a name that is given twice, and if a hook raises.
    """
    caller = hook.pytest_customop_register_checks
    results = call_hook(caller)
    try:
        return Registry(check for checks in reversed(results) for check in _listed(checks))
    except ValueError as error:
        raise HookError(f"{caller.name} at {implemented_at(caller)}: {error}") from None


def _listed(checks: Any) -> Iterable[Any]:
    if isinstance(checks, Check):
        raise ValueError(f"it returned the check {checks.name}: return a list")
    return checks or ()


def selects_only_body(selection: Iterable[str] | None) -> bool:
    """Whether a selection names the tests' own bodies and no check."""
    added = [name for name in selection or () if not name.startswith("-")]
    return bool(added) and all(name == BODY for name in added)


def select_checks(registry: Registry, declaration: Declaration, settings: Settings) -> list[Check]:
    """The checks of a declaration: those that both its mark and the session select.

    Raises:
        MarkError: for an unknown name in the mark, and for a known failure that no case can have.
    """
    wrong = registry.unknown(declaration.checks or ())
    if wrong:
        raise declaration.mistake(wrong)
    validate_known(declaration, registry)
    if settings.checks is None:
        return registry.select(declaration.checks)
    known = [name for name in settings.checks if registry.unknown([name]) is None]
    if not known:
        return []
    if declaration.checks is None:
        return registry.select(known)
    chosen = registry.select(declaration.checks)
    allowed = {check.name for check in registry.select(known)}
    names = declaration.checks or ()
    return [
        check
        for check in chosen
        if check.name in allowed or (check.name in names and check.family in known)
    ]
