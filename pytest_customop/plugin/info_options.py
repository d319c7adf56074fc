"""The command line: what is printed in place of a run, and wrong names that are told before it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from .session.state import Session


def print_instead(config: pytest.Config) -> int:
    """Print what --customop-explain or --customop-list-checks asks for; the session ends with it.

    Raises:
        pytest.UsageError: for a finding that is not known, and for a wrong registration of checks.
    """
    if config.getoption("customop_explain"):
        return _explain(config.getoption("customop_explain"))
    from ..core.tables import aligned
    from ..plan.selection import registry_from

    with _as_usage_error():
        checks = registry_from(config.hook)
    rows = [[one.name, one.summary + ("" if one.default else " (opt-in)")] for one in checks]
    print("\n".join(aligned(rows)))
    return 0


def _explain(code: str) -> int:
    from ..checks import catalogue
    from ..core.suggest import unknown
    from ..report import explain

    if code not in catalogue():
        raise pytest.UsageError(
            f"--customop-explain: {unknown('finding', code, list(catalogue()))}"
        )
    print(explain.as_text(code))
    return 0


@contextlib.contextmanager
def _as_usage_error() -> Iterator[None]:
    """Tell a wrong registration of checks in one line, before anything is collected."""
    from ..core.hooks import HookError

    try:
        yield
    except HookError as error:
        raise pytest.UsageError(f"customop: {error}") from None


def validate_check_names(session: Session) -> None:
    """Refuse a misspelt check at once; any other unknown name may come from a later conftest.

    Raises:
        pytest.UsageError: for the misspelt one.
    """
    from ..core.suggest import misspelt

    with _as_usage_error():
        registry = session.registry(session.config.hook)
        session.note_unknown_checks(registry)
    for name, wrong in session.unknown_checks.items():
        if wrong and misspelt(name.removeprefix("-"), registry.names()):
            raise pytest.UsageError(f"customop: {wrong}")
