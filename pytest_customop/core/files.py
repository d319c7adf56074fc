"""Write files as a whole or not at all, and find out in advance why a file cannot be written."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

_BLOCK = b"\n" * 4096  # written as a trial: on a full disk, empty files can still be made


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, which then replaces the file. Links are followed.

    Raises:
        OSError: if that fails. The file is then as it was before.
    """
    path = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        _write(handle, content)
        _set_usual_mode(temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _write(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)  # some file systems raise only here when they are full


def _set_usual_mode(path: str) -> None:
    """Make a file from mkstemp, which is private, as readable as any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def why_unwritable(path: Path) -> str | None:
    """Why `write_whole` cannot work, found by a trial in the same folder; None if it can."""
    path = Path(os.path.realpath(path))
    try:
        mode = path.stat().st_mode
    except OSError:
        mode = 0
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if mode and not stat.S_ISREG(mode):
        return "it is not an ordinary file"
    if mode and not os.access(path, os.W_OK):
        return "it is read-only"
    return _why_no_file_in(path.parent, f".{path.name}.")


def why_unusable(folder: Path) -> str | None:
    """Why no files can be written to a folder, which need not exist yet; None if they can."""
    existing = Path(os.path.realpath(folder))
    while not os.path.lexists(existing):
        existing = existing.parent
    return _why_no_file_in(existing, ".customop-")


def _why_no_file_in(folder: Path, prefix: str) -> str | None:
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            _write(handle, _BLOCK)
        finally:
            os.unlink(temporary)
    except OSError as error:
        return error.strerror or str(error)
    return None
