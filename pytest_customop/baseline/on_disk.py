"""The baseline file on disk: read it, and update it as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..core.files import why_unwritable, write_whole
from .file import Baseline
from .merge import Merged
from .toml import TomlError


class BaselineError(Exception):
    """Why a baseline file cannot be used: one line, which begins with the file and the line in it."""


def read_text(path: Path, name: str) -> str | None:
    """The text of a file; None if there is none.

    Args:
        name: of the file, for messages.

    Raises:
        BaselineError: if it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"{name}: cannot be read: {error.strerror or error}") from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BaselineError(f"{name}:{line}: is not UTF-8 text") from None


def parsed(text: str | None, name: str) -> Baseline:
    """The content of a file with this text; None: of a new file.

    Raises:
        BaselineError: if it is not a baseline, or has a newer version.
    """
    try:
        return Baseline(text)
    except TomlError as error:
        where = f"{name}:{error.line}" if error.line else name
        raise BaselineError(f"{where}: {error}") from None


def validate_writable(path: Path, name: str) -> None:
    """Raise `BaselineError` if a file cannot be written, as far as this is known before writing."""
    why = why_unwritable(path)
    if why:
        raise BaselineError(f"{name}: cannot be written: {why}")


def update(path: Path, name: str, merged_with: Callable[[Baseline], Merged]) -> Merged:
    """Merge into the current file, which another session may have updated meanwhile.

    If nothing changes, the file is not written.

    Args:
        merged_with: computes the changes of a baseline.

    Raises:
        BaselineError: if the file is no longer a baseline. It stays as it was.
        OSError: if it cannot be written. It stays as it was.
    """
    with _alone_in(path.parent):
        text = read_text(path, name)
        baseline = parsed(text, name)
        merged = merged_with(baseline)
        changes = {
            at: change.new
            for at, change in enumerate(merged.changes)
            if change.new is not change.old
        }
        after = baseline.edit(changes, merged.added)
        if after != text:
            write_whole(path, after.encode())
    return merged


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other sessions from updating a file of this folder meanwhile, if the system has such locks."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # Windows; a folder that cannot be read
        yield
        return
    try:
        with contextlib.suppress(OSError):  # not every network file system has locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
