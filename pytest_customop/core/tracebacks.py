"""Tracebacks cut to the frames that an op's author wrote."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path

from .paths import PACKAGE_PREFIX
from .wording import first_line

_PYTHON = str(Path(traceback.__file__).parent) + os.sep


@functools.cache
def _torch() -> str:
    """The folder of torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent) + os.sep if spec and spec.origin else PACKAGE_PREFIX


def traceback_text(error: BaseException, *, whole: bool = False) -> str:
    """The exception with its author's frames: not those of torch, of this package and of Python.

    `whole` keeps every frame: for an exception of the package itself.
    """
    frames = traceback.extract_tb(error.__traceback__)
    kept = [frame for frame in frames if whole or not _hidden(frame.filename)]
    lines = traceback.format_list(kept)
    return "".join([*lines, *traceback.format_exception_only(type(error), error)]).rstrip()


def error_line(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    first = message_line(error)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def message_of(error: BaseException) -> str:
    """The exception's text, also of one that cannot tell it."""
    try:
        return str(error)
    except Exception as broken:
        return f"<its __str__ raises {type(broken).__name__}>"


def message_line(error: BaseException) -> str:
    """The first line of the exception's message, cut after 240 characters."""
    return first_line(message_of(error))


def of_the_op(error: BaseException) -> bool:
    """Whether an exception that leaves an op is the op's own doing.

    SystemExit is. KeyboardInterrupt is where SIGINT is ignored, so that Ctrl-C cannot be meant. Other
    exceptions below BaseException are how pytest ends a test.
    """
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return isinstance(error, (Exception, SystemExit))


def raised_at(error: BaseException) -> str:
    """File and line of the author's frame that raised, or called what raised."""
    frames = traceback.extract_tb(error.__traceback__)
    authors = [frame for frame in frames if not _hidden(frame.filename)]
    frame = (authors or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def raised_by_author(error: BaseException) -> bool:
    """Whether the author's own code raised, and not torch inside an op; `torch._check` is his too."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name.startswith("_check"):
        frames.pop()
    return bool(frames) and not _hidden(frames[-1].filename)


def root_cause(error: BaseException) -> BaseException:
    """The first exception of a chain of `raise ... from ...` and `inner_exception`s."""
    for cause in _causes(error):
        error = cause
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    current: BaseException | None = error
    while current is not None:
        current = getattr(current, "inner_exception", None) or current.__cause__
        if current is None or id(current) in seen:
            return
        seen.add(id(current))
        yield current


def is_of_author(filename: str) -> bool:
    """Whether a file is neither torch's, nor Python's, nor this package's."""
    return not _hidden(filename)


def _hidden(filename: str) -> bool:
    in_python = filename.startswith(_PYTHON) and "site-packages" not in filename
    generated = filename.startswith("<") or "torchinductor" in filename
    return in_python or generated or filename.startswith((PACKAGE_PREFIX, _torch()))
