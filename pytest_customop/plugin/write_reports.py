"""Write the session's reports at its end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ..core.files import write_whole
from ..report import formats, json_file
from ..settings import GITHUB
from .session.state import Session

_SUMMARY = "GITHUB_STEP_SUMMARY"  # the variable in which GitHub names the file of a step's summary


def write_reports(session: Session) -> None:
    """Write every report. A failure to write one is noted, and the others are still written."""
    report = _report_of(session)
    for path in session.settings.reports:
        try:
            if isinstance(path, Path):
                write_whole(path, formats.render(report, path.suffix).encode())
                session.report_lines.append(f"report: {path}")
            else:
                _write_github(session, report)
        except OSError as error:
            session.omissions.unwritten[str(path)] = error.strerror or str(error)


def _write_github(session: Session, report: Mapping[str, Any]) -> None:
    """Append the summary of the job's step, and keep the annotations for the end of the output."""
    from ..report import github, markdown

    summary = os.environ.get(_SUMMARY)
    if not summary:
        session.report_lines.append(f"report: no {GITHUB} summary, because {_SUMMARY} is not set")
        return
    github.append_summary(Path(summary), markdown.render(report, markdown.SUMMARY))
    session.report_lines.append(f"report: {summary}")
    root = session.config.rootpath
    workspace = Path(os.environ.get("GITHUB_WORKSPACE") or root)
    session.report_lines += github.annotation_lines(report, root, workspace)


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
