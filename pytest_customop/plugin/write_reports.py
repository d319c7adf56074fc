"""Write the session's reports at its end."""

from __future__ import annotations

import pytest

from ..report import json_file
from .session.state import Session


def write_reports(session: Session) -> None:
    """Write every report; what cannot be written is noted, and the others are written."""
    torch = session.worker_versions or json_file.torch_versions()
    settings = {"seed": session.settings.seed, "backend": session.settings.backend}
    environment = json_file.environment(torch, pytest.__version__, settings)
    for path in session.settings.reports:
        try:
            json_file.write(path, environment, session.records.values(), session.coverage)
        except OSError as error:
            session.omissions.unwritten[str(path)] = error.strerror or str(error)
