"""The options that print something instead of a run, and the early detection of misspelt checks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from .session.state import Session

if TYPE_CHECKING:
    from ..checks import Registry


def print_instead(config: pytest.Config) -> int:
    """Print the output of --customop-explain or --customop-list-checks, and return the exit status.

    Raises:
        pytest.UsageError: for a name that is neither a finding nor a check, and for a wrong
            registration of checks.
    """
    from ..plan.selection import registry_from

    with _as_usage_error():
        checks = registry_from(config.hook)
    name = config.getoption("customop_explain")
    print(_list_of(checks) if name is None else _explanation_of(name.strip(), checks))
    return 0


def _list_of(checks: Registry) -> str:
    from ..core.tables import aligned

    rows = [
        [check.name, check.summary + ("" if check.default else " (opt-in)")] for check in checks
    ]
    return "\n".join(aligned(rows))


def _explanation_of(name: str, checks: Registry) -> str:
    from ..checks import catalogue, families
    from ..core.suggest import did_you_mean
    from ..report.explain import as_text, check_as_text

    explained = {**catalogue(), **checks.findings()}
    if name in explained:
        return as_text(name, explained[name])
    by_name = {check.name: check for check in checks}
    if name in by_name:
        check = by_name[name]
        shared = [
            code for family in families() if family.name == check.family for code in family.shared
        ]
        return check_as_text(check, sorted({*check.findings, *shared}))
    names = [*explained, *by_name]
    wrong = (
        f"unknown finding or check {name!r}{did_you_mean(name, names)}" if name else "it is empty"
    )
    raise pytest.UsageError(
        f"--customop-explain={name}: {wrong}; name a finding (the first word of a failure) or a check "
        "(see --customop-list-checks)"
    )


@contextlib.contextmanager
def _as_usage_error() -> Iterator[None]:
    """Report a wrong registration of checks as one usage error, before anything is collected."""
    from ..core.hooks import HookError

    try:
        yield
    except HookError as error:
        raise pytest.UsageError(f"customop: {error}") from None


def validate_check_names(session: Session) -> None:
    """Raise `pytest.UsageError` for a misspelt check in --customop-checks.

    Any other name that is not known yet may come from a conftest that is loaded later.
    """
    from ..core.suggest import misspelt

    with _as_usage_error():
        registry = session.registry(session.config.hook)
        session.note_unknown_checks(registry)
    for name, wrong in session.unknown_checks.items():
        if wrong and misspelt(name.removeprefix("-"), registry.names()):
            raise pytest.UsageError(wrong)
