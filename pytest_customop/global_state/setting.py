"""One global setting: how it is read, how it is written, and another value for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Setting:
    """One global setting of a library or of the process.

    Args:
        name: as messages show it: "the default dtype".
        read: () -> the value now, which can be compared with ==.
        write: value -> None: sets it.
        change: value -> another value under which an op still has to work. None if there is none: an op
            that sets the same value at each call is then found only at its first call.
        source: a Python expression for scripts that reads the value.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    change: Callable[[Any], Any] | None = None
    source: str = ""


def flag(name: str, read: Callable[[], Any], write: Callable[[Any], Any], source: str) -> Setting:
    """A setting that is True or False; its arguments are those of `Setting`."""
    return Setting(name, read, write, lambda value: not value, source)
