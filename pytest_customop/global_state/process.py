"""Save and restore signal handlers, `sys.path` and other state that ops and compilers leave behind."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..compat.configuration import compiler_configuration

_NAMES = "ABRT ALRM BUS CHLD FPE HUP ILL INT PIPE SEGV TERM USR1 USR2"
_SIGNALS = [
    getattr(signal, f"SIG{name}") for name in _NAMES.split() if hasattr(signal, f"SIG{name}")
]
# Without the wrapper that turns every result into an enumeration, which takes 20 times as long.
_handler_of: Any = importlib.import_module("_signal").getsignal
# Importing setuptools adds this entry once. Its modules and torch's C++ builder need it from then on.
_VENDORED = os.path.join("setuptools", "_vendor")


@contextlib.contextmanager
def preserved() -> Iterator[Callable[[], None]]:
    """Restore what the block changes of the process.

    That is the compiler's configuration, signal handlers, `sys.path`, `sys.excepthook` and the recursion
    limit.

    Yields:
        a function that restores them at once.
    """
    restore_configuration = compiler_configuration()
    limit, path, hook = sys.getrecursionlimit(), [*sys.path], sys.excepthook
    handlers = [_handler_of(number) for number in _SIGNALS]

    def restore() -> None:
        restore_configuration()
        if sys.getrecursionlimit() != limit:
            sys.setrecursionlimit(limit)
        if sys.path != path:
            sys.path[:] = path + [entry for entry in sys.path if _is_new_and_needed(entry, path)]
        sys.excepthook = hook
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            if _handler_of(number) is not handler:
                _set_handler(number, handler)

    try:
        yield restore
    finally:
        restore()


def _is_new_and_needed(entry: str, before: list[str]) -> bool:
    return entry not in before and entry.endswith(_VENDORED)


def _set_handler(number: int, handler: Any) -> None:
    """Set a handler, in the main thread only. Handlers that C code has set read as None and are lost."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)
