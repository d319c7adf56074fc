"""Print the end of a session: the table of outcomes, the findings, and what else a reader should know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session.state import Session


def print_summary(terminal: Any, session: Session) -> None:
    """Print all sections that are not empty. With `-q`, print only the table and the findings.

    Args:
        terminal: pytest's terminal reporter.
    """
    for wrong in sorted(session.worker_errors):
        terminal.write_line(f"ERROR: {wrong}", red=True)
    brief = terminal.verbosity < 0
    notes = _notes(session)
    if session.records or notes:
        terminal.write_sep("=", "customop")
        _print(terminal, _results(session, terminal, brief=brief))
        if not brief or not session.records:
            _print(terminal, notes)
        for line in session.report_lines:
            if not brief or line.startswith("::"):  # an annotation, which GitHub reads
                terminal.write_line(line)
    if session.settings.require_coverage and not session.config.option.collectonly:
        _print_required(terminal, session, brief=brief)
    if session.baseline is not None and session.baseline.why_failed:
        if brief:
            _print(terminal, session.baseline.lines())
        terminal.write_line(f"ERROR: customop: {session.baseline.why_failed}", red=True)
    if session.result_hook.error:
        terminal.write_line(f"ERROR: customop: {session.result_hook.error}", red=True)
    for name, why in session.omissions.unwritten.items():
        terminal.write_line(f"ERROR: customop: {name} was not written: {why}", red=True)


def _results(session: Session, terminal: Any, *, brief: bool) -> list[str]:
    from ..report.terminal import summary_lines

    omitted = session.omissions.variants.values()
    records = list(session.records.values())
    return summary_lines(
        records, omitted, terminal.config.get_terminal_writer().fullwidth, brief=brief
    )


def _notes(session: Session) -> list[str]:
    """The lines on omissions, harvest, scan, baseline and coverage."""
    from ..report.coverage import coverage_lines

    notes = session.omissions.lines(session.settings.max_samples)
    if session.settings.harvest and not session.config.option.collectonly:
        notes += [""] if session.records or notes else []
        notes += session.harvest.lines(session.settings.harvest)
    if session.scan is not None and not hasattr(session.config, "workerinput"):
        notes += [""] if session.records or notes else []
        notes += session.scan.lines()
    if session.baseline is not None:
        notes += session.baseline.lines()
    return [*notes, *coverage_lines(session.coverage)]


def _print_required(terminal: Any, session: Session, *, brief: bool) -> None:
    """The section on the namespaces that `--customop-require-coverage` names."""
    from ..report.coverage import required_lines

    failed = any(namespace.fails for namespace in session.coverage)
    if brief and not failed:
        return
    title = "customop: required coverage" + " is missing" * failed
    terminal.write_sep("=", title, red=failed, bold=failed)
    _print(terminal, required_lines(session.coverage))


def _print(terminal: Any, lines: Iterable[str]) -> None:
    from ..report.colours import coloured

    for line in coloured(lines, terminal.config.get_terminal_writer().fullwidth):
        for part in line:
            terminal.write(part.text, **part.markup)
        terminal.line("")
