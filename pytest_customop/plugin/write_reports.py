"""The session's files, written at its end."""

from __future__ import annotations

from ..report import json_file
from .session.state import Session


def write_reports(session: Session) -> None:
    """Write every report; what cannot be written is noted, and the others are written."""
    settings = {"seed": session.settings.seed, "backend": session.settings.backend}
    for path in session.settings.reports:
        try:
            json_file.write(path, json_file.environment(settings), session.records.values())
        except OSError as error:
            session.notes.unwritten[str(path)] = error.strerror or str(error)
