"""What torch logs while a check runs, and for whom it writes down its trace of compilations."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from .. import compat
from ..compat.pytest_private import is_log_handler


class _NotOfTorch:
    """Drops the records of torch's own loggers; those of the op and of others pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_torchs(record.name)


def _is_torchs(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Drop what torch logs, but for a trace that goes to a file because it was asked for."""
    loggers = [
        one
        for name, one in logging.root.manager.loggerDict.items()
        if isinstance(one, logging.Logger) and _is_torchs(name) and name != compat.TRACE_LOGGER
    ]
    # pytest puts its own handlers on every one of them.
    handlers = {handler for one in loggers for handler in one.handlers}
    dropped = _NotOfTorch()
    for handler in handlers:
        handler.addFilter(dropped)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(dropped)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Take pytest's handlers off the logger of torch's trace of compilations.

    Where it has a handler, torch writes down all that a compilation does: every tensor, graph and
    guard. pytest 9.2 puts four there. Torch's own takes itself off, unless a trace was asked for.
    """
    logger = logging.getLogger(compat.TRACE_LOGGER)
    taken = [one for one in logger.handlers if is_log_handler(one)]
    for handler in taken:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in taken:
            logger.addHandler(handler)
