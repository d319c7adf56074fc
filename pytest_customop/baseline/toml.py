"""Read TOML statement by statement, so that a file can be edited without losing its comments; write values.

Imports tomli before Python 3.11.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_WHERE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
_WIDE = 100  # characters of a line


class TomlError(ValueError):
    """A text is invalid; the message says why.

    Args:
        line: its number, from 1; None where it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Part(NamedTuple):
    """A part of the text: a statement, the header of a table, or a line without either.

    Args:
        line: its number, from 1.
        text: as it stands there, with its line ends.
        header: `[name]` or `[[name]]`.
        key, value: of a statement; the key is empty for the other kinds.
    """

    line: int
    text: str
    header: str = ""
    key: str = ""
    value: Any = None


def parse(text: str) -> dict[str, Any]:
    """The values of a whole text.

    Raises:
        TomlError: if it is not TOML.
    """
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = _WHERE.search(message)
        at_line = match[1] if match else None
        line = int(at_line) if at_line else text.rstrip().count("\n") + 1  # at the end
        raise TomlError(f"is not TOML: {_WHERE.sub('', message).rstrip('.')}", line) from None


def parts(text: str) -> Iterator[Part]:
    """The parts of a text that `parse` accepts, in order; joined, they are the text."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    at = 0
    while at < len(lines):
        start, taken = at, lines[at]
        at += 1
        begun = taken.strip()
        if not begun or begun.startswith("#"):
            yield Part(start + 1, taken)
            continue
        if begun.startswith("["):
            header = re.sub(r"\s", "", begun.partition("#")[0])
            yield Part(start + 1, taken, header=header)
            continue
        while (parsed := _parsed(taken)) is None:  # lists and strings of several lines
            taken += lines[at]
            at += 1
        ((key, value),) = parsed.items()
        yield Part(start + 1, taken, key=key, value=value)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def statement(key: str, value: str | bool | int | list[str]) -> str:
    """`key = value`; a list that is too long for a line has one value per line."""
    if not isinstance(value, list):
        return f"{key} = {_written(value)}\n"
    line = f"{key} = [{', '.join(map(_written, value))}]\n"
    if len(line) <= _WIDE:
        return line
    return f"{key} = [\n" + "".join(f"    {_written(item)},\n" for item in value) + "]\n"


def _written(value: str | bool | int) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
