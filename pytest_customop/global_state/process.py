"""What ops and compilers leave behind in the process beside torch's own settings, put back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .. import compat

_NAMES = "ABRT ALRM BUS CHLD FPE HUP ILL INT PIPE SEGV TERM USR1 USR2"
_SIGNALS = [
    getattr(signal, f"SIG{name}") for name in _NAMES.split() if hasattr(signal, f"SIG{name}")
]
# The same without making enumerations of its answers, which takes 20 times as long.
_handler_of = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
# What importing setuptools adds, once; its modules and torch's C++ builder need it from then on.
_VENDORED = os.path.join("setuptools", "_vendor")


@contextlib.contextmanager
def preserved() -> Iterator[Callable[[], None]]:
    """Put back the compiler's configuration, signal handlers, `sys.path` and the recursion limit.

    What the block is given does so at once.
    """
    configure_back = compat.compiler_configuration()
    limit, path, hook = sys.getrecursionlimit(), [*sys.path], sys.excepthook
    handlers = [_handler_of(number) for number in _SIGNALS]

    def restore() -> None:
        configure_back()
        if sys.getrecursionlimit() != limit:
            sys.setrecursionlimit(limit)
        if sys.path != path:
            sys.path[:] = path + [one for one in sys.path if _is_new_and_needed(one, path)]
        sys.excepthook = hook
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            if _handler_of(number) is not handler:
                _handle(number, handler)

    try:
        yield restore
    finally:
        restore()


def _is_new_and_needed(entry: str, known: list[str]) -> bool:
    return entry not in known and entry.endswith(_VENDORED)


def _handle(number: int, handler: Any) -> None:
    """Handlers that C code has set cannot be put back, and only the main thread may."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)
