"""Read and write the levels of the root logger and of torch's loggers."""

from __future__ import annotations

import functools
import logging


@functools.lru_cache(maxsize=1)
def _torch_loggers(count: int) -> tuple[list[logging.Logger], list[str]]:
    """torch's loggers, and its names that are no loggers yet.

    Args:
        count: the number of all logger names: the result is cached until it changes.
    """
    names = logging.root.manager.loggerDict.items()
    entries = [
        (name, entry) for name, entry in names if name == "torch" or name.startswith("torch.")
    ]
    loggers = [entry for _, entry in entries if isinstance(entry, logging.Logger)]
    return loggers, [name for name, entry in entries if not isinstance(entry, logging.Logger)]


def read() -> dict[str, int]:
    """The levels by logger name: of the root logger, and of torch's loggers that have a level."""
    known = logging.root.manager.loggerDict
    loggers, names = _torch_loggers(len(known))
    since = [entry for entry in map(known.get, names) if isinstance(entry, logging.Logger)]
    levels = {logger.name: logger.level for logger in (*loggers, *since) if logger.level}
    return {"": logging.root.level, **levels}


def write(value: dict[str, int]) -> None:
    """Set the levels of these loggers, and remove the levels of torch's other loggers."""
    before = read()
    for name in {**before, **value}:
        if before.get(name) != value.get(name):  # each call clears the caches of all loggers
            logging.getLogger(name).setLevel(value.get(name, logging.NOTSET))


def change(value: dict[str, int]) -> dict[str, int]:
    """Levels that differ from these, for the root logger and for `torch`."""
    return {**value, "": value[""] + 1, "torch": value.get("torch", logging.WARNING) + 1}
