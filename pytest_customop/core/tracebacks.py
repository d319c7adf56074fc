"""Read exceptions: their texts, their causes, and whose code raised them.

Code belongs to an op's author if it is not torch's, Python's or this package's.
"""

from __future__ import annotations

import functools
import importlib.util
import opcode
import os
import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from .paths import PACKAGE_PREFIX
from .wording import first_line

_PYTHON = str(Path(traceback.__file__).parent) + os.sep
_PACKAGE = __name__.partition(".")[0] + "."
# The instruction that ends `raise` and a failed `assert` in every version of Python.
_RAISE = opcode.opmap["RAISE_VARARGS"]


@functools.cache
def _torch() -> str:
    """The folder of torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent) + os.sep if spec and spec.origin else PACKAGE_PREFIX


def traceback_text(error: BaseException, *, whole: bool = False) -> str:
    """The exception with the frames of the author's code.

    Args:
        error: the exception.
        whole: whether to keep every frame, as for a mistake in this package.
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
    """The exception's text; a placeholder if its `__str__` raises."""
    try:
        return str(error)
    except Exception as broken:  # the author's own __str__
        return f"<its __str__ raises {type(broken).__name__}>"


def message_line(error: BaseException) -> str:
    """The first line of the exception's message, cut after 240 characters."""
    return first_line(message_of(error))


def ends_test(error: BaseException) -> bool:
    """Whether an exception is meant to end the test, and is not a mistake of an op.

    KeyboardInterrupt is meant to, except where SIGINT, and so Ctrl-C, is ignored. SystemExit is not. The
    other types that are not an Exception are pytest's.
    """
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    return not isinstance(error, (Exception, SystemExit))


def raised_at(error: BaseException) -> str:
    """File and line of the author's frame that raised, or called what raised."""
    frames = traceback.extract_tb(error.__traceback__)
    authors = [frame for frame in frames if not _hidden(frame.filename)]
    frame = (authors or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def raised_in(error: BaseException) -> str:
    """The name of the file and the line that raised, whoever wrote it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def raised_by_author(error: BaseException) -> bool:
    """Whether the last frame is of the author's code, or a call of `torch._check` in it."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name.startswith("_check"):
        frames.pop()
    return bool(frames) and not _hidden(frames[-1].filename)


def raised_on_purpose(error: BaseException) -> bool:
    """Whether the author's code raised by a `raise`, an `assert` or a call of `torch._check*`.

    An error from torch, Python or an expression, such as the IndexError of `x.shape[5]`, is not raised on
    purpose. The causes of the exception are not examined.
    """
    entries = [*_entries(error)]
    checked = False
    while entries and _is_torch_check(entries[-1].tb_frame):
        entries.pop()
        checked = True
    if not entries or _hidden(entries[-1].tb_frame.f_code.co_filename):
        return False
    code, position = entries[-1].tb_frame.f_code.co_code, entries[-1].tb_lasti
    return checked or (0 <= position < len(code) and code[position] == _RAISE)


def frames_of(error: BaseException) -> list[FrameType]:
    """The frames that an exception passed through, outermost first."""
    return [entry.tb_frame for entry in _entries(error)]


def _entries(error: BaseException) -> Iterator[TracebackType]:
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _is_torch_check(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name.startswith("_check") and code.co_filename.startswith(_torch())


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that it was raised from, outermost first.

    It follows `raise ... from ...` and the `inner_exception` that torch keeps.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = getattr(current, "inner_exception", None) or current.__cause__


def root_cause(error: BaseException) -> BaseException:
    """The last exception of the chain: the one that was raised first."""
    return list(chain(error))[-1]


def is_own_bug(error: BaseException) -> bool:
    """Whether code of this package raised by mistake.

    It did if the last frame outside of Python's own library is the package's. Exceptions of the package's
    own types are raised on purpose. A RuntimeError comes from torch, whose C++ functions have no frame:
    they raise it for a dtype or device without a kernel.
    """
    if isinstance(error, RuntimeError) or type(error).__module__.startswith(_PACKAGE):
        return False
    where = ""
    frames = error.__traceback__
    while frames is not None:
        filename = frames.tb_frame.f_code.co_filename
        where = where if _in_python(filename) else filename
        frames = frames.tb_next
    return where.startswith(PACKAGE_PREFIX)


def reraise_bug(error: BaseException) -> None:
    """Raise an exception again if it `is_own_bug`.

    Handlers that catch every error of an op, a backward or torch call this first, so that a mistake in
    this package is reported as an error of the check, not of the op.
    """
    if is_own_bug(error):
        raise error


def is_of_author(filename: str) -> bool:
    """Whether a file holds code of an op's author."""
    return not _hidden(filename)


def _hidden(filename: str) -> bool:
    generated = filename.startswith("<") or "torchinductor" in filename
    ours_or_torchs = filename.startswith((PACKAGE_PREFIX, _torch()))
    return _in_python(filename) or generated or ours_or_torchs


def _in_python(filename: str) -> bool:
    """Whether a file belongs to Python's own library."""
    return filename.startswith(_PYTHON) and "site-packages" not in filename
