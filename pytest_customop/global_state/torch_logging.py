"""Silence torch's loggers while a check runs, and prevent the trace that pytest's handlers would cause."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from ..compat.compiler import TRACE_LOGGER
from ..compat.pytest_private import is_log_handler


class _WithoutTorch:
    """A filter that drops the records of torch's loggers and passes those of all others."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_of_torch(record.name)


def _is_of_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Drop what torch logs in the block. A trace that the user requests (TORCH_TRACE) is still written."""
    loggers = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and _is_of_torch(name) and name != TRACE_LOGGER
    ]
    # pytest adds its own handlers to every one of them.
    handlers = {handler for logger in loggers for handler in logger.handlers}
    without_torch = _WithoutTorch()
    for handler in handlers:
        handler.addFilter(without_torch)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(without_torch)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Remove pytest's handlers from the logger of torch's trace of compilations for the block.

    If that logger has a handler, torch writes down every tensor, graph and guard of a compilation. pytest
    9.2 adds four. torch's own handler removes itself, unless the user requests a trace.
    """
    logger = logging.getLogger(TRACE_LOGGER)
    removed = [handler for handler in logger.handlers if is_log_handler(handler)]
    for handler in removed:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in removed:
            logger.addHandler(handler)
