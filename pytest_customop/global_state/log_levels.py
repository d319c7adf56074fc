"""Read and write the levels of the root logger and of torch's loggers."""

from __future__ import annotations

import functools
import logging
from typing import NamedTuple


class _Torch(NamedTuple):
    """torch's loggers, and its names that are no loggers yet, with what stands for them."""

    loggers: tuple[logging.Logger, ...]
    names: tuple[str, ...]
    placeholders: tuple[object, ...]


@functools.lru_cache(maxsize=1)
def _of_torch(count: int) -> _Torch:
    """What the logging module knows of torch.

    Args:
        count: the number of all logger names: the result is cached until it changes.
    """
    known = logging.root.manager.loggerDict.items()
    entries = {name: entry for name, entry in known if f"{name}.".startswith("torch.")}
    loggers = tuple(entry for entry in entries.values() if isinstance(entry, logging.Logger))
    others = {name: each for name, each in entries.items() if not isinstance(each, logging.Logger)}
    return _Torch(loggers, tuple(others), tuple(others.values()))


def read() -> dict[str, int]:
    """The levels by logger name: of the root logger, and of torch's loggers that have a level."""
    known = logging.root.manager.loggerDict
    torch = _of_torch(len(known))
    if tuple(map(known.get, torch.names)) != torch.placeholders:  # a name has become a logger
        _of_torch.cache_clear()
        torch = _of_torch(len(known))
    levels = {logger.name: logger.level for logger in torch.loggers if logger.level}
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
