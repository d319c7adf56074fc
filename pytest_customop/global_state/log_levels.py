"""The levels of torch's loggers and of the root of all: what they are, and others to start from."""

from __future__ import annotations

import functools
import logging


@functools.lru_cache(maxsize=1)
def _torchs(count: int) -> tuple[list[logging.Logger], list[str]]:
    """torch's loggers, and names that may become some, as long as there are no more than these."""
    names = logging.root.manager.loggerDict.items()
    own = [(name, one) for name, one in names if name == "torch" or name.startswith("torch.")]
    loggers = [one for _, one in own if isinstance(one, logging.Logger)]
    return loggers, [name for name, one in own if not isinstance(one, logging.Logger)]


def read() -> dict[str, int]:
    """The levels of the root logger and of torch's own, by name, where there is one."""
    known = logging.root.manager.loggerDict
    loggers, names = _torchs(len(known))
    since = [one for one in map(known.get, names) if isinstance(one, logging.Logger)]
    found = {one.name: one.level for one in (*loggers, *since) if one.level}
    return {"": logging.root.level, **found}


def write(value: dict[str, int]) -> None:
    """Give those loggers these levels, and none to torch's others."""
    before = read()
    for name in {**before, **value}:
        if before.get(name) != value.get(name):  # each call clears the caches of all loggers
            logging.getLogger(name).setLevel(value.get(name, logging.NOTSET))


def other(value: dict[str, int]) -> dict[str, int]:
    """Other levels than these."""
    return {**value, "": value[""] + 1, "torch": value.get("torch", logging.WARNING) + 1}
