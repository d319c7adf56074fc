"""Files that are written whole or not at all, and whether they can be written at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

_BLOCK = b"\n" * 4096  # a full disk still makes empty files


def write_whole(path: Path, content: bytes) -> None:
    """Write to a file beside it, which then takes its place; a link is followed.

    Raises:
        OSError: if that fails; what stood there before still does.
    """
    path = Path(os.path.realpath(path))
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        _fill(handle, content)
        _give_usual_mode(beside)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _fill(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)  # some file systems tell only now that they are full


def _give_usual_mode(path: str) -> None:
    """mkstemp makes files private; these are as readable as any other file made here."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def why_unwritable(path: Path) -> str | None:
    """Why `write_whole` cannot work, found by trying it beside the file; None if it can."""
    path = Path(os.path.realpath(path))
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = 0
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if mode and not stat.S_ISREG(mode):
        return "it is no ordinary file"
    if mode and not os.access(path, os.W_OK):
        return "it is read-only"
    return _why_no_file_in(path.parent, f".{path.name}.")


def why_unusable(folder: Path) -> str | None:
    """Why no files can be written into a folder, which need not exist yet; None if they can."""
    existing = Path(os.path.realpath(folder))
    while not os.path.lexists(existing):
        existing = existing.parent
    return _why_no_file_in(existing, ".customop-")


def _why_no_file_in(folder: Path, prefix: str) -> str | None:
    try:
        handle, beside = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            _fill(handle, _BLOCK)
        finally:
            os.unlink(beside)
    except OSError as error:
        return error.strerror or str(error)
    return None
