"""The hooks of `--customop-scan`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ...compat.xdist_private import is_controller
from ...core.files import write_whole
from ...core.tables import aligned
from ...core.wording import counted
from ...scan.notes import ScanNotes
from ..read_options import where_given
from ..session.state import Session

if TYPE_CHECKING:
    from ...scan.audit import AuditedOp
    from ...scan.marked import Inputs

_NAME = "customop-scan"  # of the plugin
_FILE = "customop_scan"  # in `workerinput`: the path of the file of marked tests; empty without one


def scan(config: pytest.Config, session: Session) -> None:
    """Check the ops of packages.

    Raises:
        pytest.UsageError: for an option of a scan without packages.
    """
    settings = session.settings
    if not settings.scan:
        option = "scan-save" if settings.scan_save else "scan-examples"
        raise pytest.UsageError(f"{where_given(config, option)}: give --customop-scan=PACKAGE too")
    config.pluginmanager.register(Scan(session), _NAME)


class Scan:
    """Imports the packages and looks for inputs before the collection, and adds the items."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._audited: list[AuditedOp] = []
        self._file: Path | None = None
        self._folder: str | None = None  # removed at the end

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give xdist's workers the file of marked tests."""
        node.workerinput[_FILE] = str(self._file or "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """In xdist's controller, search before its workers start."""
        if is_controller(session.config):
            self._scan(session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Search, and collect what was found; nothing else unless paths are given."""
        config = session.config
        if is_controller(config):
            return
        self._scan(session)
        if config.args_source != pytest.Config.ArgsSource.ARGS:
            config.args[:] = []
        if self._file is not None and str(self._file) not in config.args:
            config.args.append(str(self._file))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Add the items of the audit."""
        from .items import items_of

        items[:0] = items_of(session, self._session, self._audited)

    def pytest_unconfigure(self) -> None:
        """Remove the folder that was made for this session."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _scan(self, session: pytest.Session) -> None:
        from ...scan.audit import HEADING, audit
        from ...scan.packages import ScanError, import_packages

        settings = self._session.settings
        worker = getattr(session.config, "workerinput", None)
        try:
            imported = import_packages(settings.scan or (), settings.scan_namespaces)
            self._audited = audit(imported.ops)
            off_cpu = tuple(audited.op.name for audited in self._audited if not audited.runs_on_cpu)
            self._session.scan = ScanNotes(imported.namespaces, len(self._audited), off_cpu)
            if worker is not None:
                self._file = Path(worker[_FILE]) if worker.get(_FILE) else None
                return
            title = f"scan: {counted(len(self._audited), 'op')} of {', '.join(imported.namespaces)}"
            rows = [HEADING, *(audited.row for audited in self._audited)]
            self._write([title, *(f"  {line}" for line in aligned(rows))])
            inputs = self._inputs()
        except ScanError as error:
            raise pytest.UsageError(f"--customop-scan: {error}") from None
        if inputs:
            self._keep(inputs)

    def _inputs(self) -> list[Inputs]:
        """The examples, and the results of the search for inputs; each op is printed when it is done."""
        from .inputs import find_inputs

        notes = self._session.scan
        assert notes is not None
        ops = [audited.op for audited in self._audited if audited.runs_on_cpu]
        return find_inputs(ops, self._session.settings, notes, lambda line: self._write([line]))

    def _keep(self, inputs: list[Inputs]) -> None:
        """Write the file of marked tests, which this session collects."""
        from ...scan.marked import marked_tests

        settings, config = self._session.settings, self._session.config
        packages = settings.scan or ()
        text = marked_tests(inputs, packages, f"--customop-scan={','.join(packages)}")
        path = settings.scan_save or self._hidden_path()
        try:
            write_whole(path, text.encode())
        except OSError as error:
            self._session.omissions.unwritten[str(path)] = error.strerror or str(error)
            return
        self._file = path
        if settings.scan_save is not None:
            shown = os.path.relpath(path, config.invocation_params.dir)
            assert self._session.scan is not None
            self._session.scan.written = f"scan: wrote {len(inputs)} marked tests to {shown}"

    def _hidden_path(self) -> Path:
        """A path in pytest's cache, where a failed item can run again; without a cache, in a new folder."""
        packages = "_".join(self._session.settings.scan or ()).replace(".", "_")
        cache = getattr(self._session.config, "cache", None)
        if cache is None:
            self._folder = tempfile.mkdtemp(prefix="customop-scan-")
            return Path(self._folder) / f"test_{packages}.py"
        return Path(cache.mkdir("customop-scan")) / f"test_{packages}.py"

    def _write(self, lines: list[str]) -> None:
        """Print lines on the terminal."""
        terminal: Any = self._session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            for line in lines:
                terminal.write_line(line)
