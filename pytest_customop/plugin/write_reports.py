"""Write the session's reports at its end."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from ..core.files import write_whole
from ..report import json_file
from .session.state import Session


def write_reports(session: Session) -> None:
    """Write every report; what cannot be written is noted, and the others are written."""
    report = _report_of(session)
    for path in session.settings.reports:
        try:
            write_whole(path, json_file.render(report).encode())
        except OSError as error:
            session.omissions.unwritten[str(path)] = error.strerror or str(error)


def _report_of(session: Session) -> dict[str, Any]:
    settings = session.settings
    environment = json_file.environment(
        session.worker_versions or json_file.torch_versions(),
        pytest.__version__,
        {
            "seed": settings.seed,
            "backend": settings.backend,
            "devices": list(settings.devices or ("cpu",)),
            "command": ["pytest", *map(str, session.config.invocation_params.args)],
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        },
    )
    omitted = session.omissions.lines(settings.max_samples)
    return json_file.as_report(environment, session.records.values(), session.coverage, omitted)
