"""Write the file of `--customop-harvest-save`."""

from __future__ import annotations

import os

from ...core.files import write_whole
from ..session.state import Session


def save(customop: Session) -> None:
    """Write the marked tests of the recorded calls; nothing if the harvest did not run, or had no calls."""
    from ...harvest.source import file_of, piece_from

    notes, path = customop.harvest, customop.settings.harvest_save
    assert path is not None
    if notes.not_run:
        return
    if not notes.pieces:
        notes.written = f"harvest: {path} was not written: there is no call to check"
        return
    option = f"--customop-harvest={','.join(customop.settings.harvest or ())}"
    title = f'"""Marked tests of the calls that a suite makes: `pytest {option}`."""'
    text = file_of(map(piece_from, notes.pieces), title)
    try:
        if path.exists():
            raise FileExistsError(None, "a file of this name exists now")
        write_whole(path, text.encode())
    except OSError as error:
        customop.omissions.unwritten[str(path)] = error.strerror or str(error)
        return
    shown = os.path.relpath(path, customop.config.invocation_params.dir)
    notes.written = f"harvest: wrote {len(notes.pieces)} marked tests to {shown}"
