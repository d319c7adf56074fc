"""The hooks of `--customop-scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ...compat.xdist_private import is_controller
from ...core.tables import aligned
from ...core.wording import counted
from ...scan.notes import ScanNotes
from ..session.state import Session

if TYPE_CHECKING:
    from ...scan.audit import AuditedOp

_NAME = "customop-scan"  # of the plugin


def scan(config: pytest.Config, session: Session) -> None:
    """Have the ops of packages checked."""
    config.pluginmanager.register(Scan(session), _NAME)


class Scan:
    """Imports the packages before the collection, and adds the items of their ops."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._audited: list[AuditedOp] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """In xdist's controller, search before its workers start."""
        if is_controller(session.config):
            self._scan(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Import the packages, and collect nothing else unless paths are given."""
        if is_controller(session.config):
            return
        self._scan(session)
        config = session.config
        if config.args_source != pytest.Config.ArgsSource.ARGS:
            config.args[:] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Add the items of the audit."""
        from .items import items_of

        items[:0] = items_of(session, self._session, self._audited)

    def _scan(self, session: pytest.Session) -> None:
        from ...scan.audit import HEADING, audit
        from ...scan.packages import ScanError, import_packages

        settings = self._session.settings
        try:
            found = import_packages(settings.scan or (), settings.scan_namespaces)
        except ScanError as error:
            raise pytest.UsageError(f"--customop-scan: {error}") from None
        self._audited = audit(found.ops)
        off_cpu = tuple(one.op.name for one in self._audited if not one.runs_on_cpu)
        self._session.scan = ScanNotes(found.namespaces, len(self._audited), off_cpu)
        if hasattr(session.config, "workerinput"):
            return
        title = f"scan: {counted(len(self._audited), 'op')} of {', '.join(found.namespaces)}"
        rows = [HEADING, *(one.row for one in self._audited)]
        _write(session, [title, *(f"  {line}" for line in aligned(rows))])


def _write(session: pytest.Session, lines: list[str]) -> None:
    """Tell on the terminal."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        for line in lines:
            terminal.write_line(line)
