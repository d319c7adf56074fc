"""The lines of the summary, wrapped, with the colours that pytest gives to outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..core.tables import wrapped
from ..core.wording import printable

_RED, _GREEN, _YELLOW = {"red": True}, {"green": True}, {"yellow": True}
_COLOURS: Mapping[str, Mapping[str, bool]] = {
    "failed": _RED,
    "error": _RED,
    "xpassed": _RED,
    "ok": _GREEN,
    "noted": _YELLOW,
    "skip": _YELLOW,
    "xfailed": _YELLOW,
}
_COUNT = re.compile(rf"\b\d+ ({'|'.join(_COLOURS)})\b")
_CODE = re.compile(r"^  \S+")
# The first words of the headings below which lines begin with the code of a finding.
_CODES = {"Findings": _RED, "Notes": _YELLOW, "Known": _YELLOW}
_COUNTS = ("", "Variants")  # the headings of lines with counts; the table has none


class Part(NamedTuple):
    """A piece of a line, and how pytest writes it."""

    text: str
    markup: Mapping[str, bool] = {}


def coloured(lines: Iterable[str], width: int) -> Iterator[list[Part]]:
    """Each line of the terminal as parts.

    Args:
        lines: of the summary. A heading follows an empty line and is not indented.
        width: the width at which lines are wrapped.
    """
    heading, after_empty = "", False
    for line in lines:
        is_heading = after_empty and line[:1].strip() != ""
        if is_heading:
            heading = line.partition(" ")[0].rstrip(":")
        after_empty = not line
        for at, piece in enumerate(wrapped(printable(line), width)):
            if is_heading:
                yield [Part(piece, {"bold": True})]
            elif heading in _COUNTS:
                yield list(_with_counts(piece))
            else:
                yield list(_with_code(piece, _CODES.get(heading) if at == 0 else None))


def _with_counts(line: str) -> Iterator[Part]:
    end = 0
    for match in _COUNT.finditer(line):
        yield Part(line[end : match.start()])
        yield Part(match[0], _COLOURS[match[1]])
        end = match.end()
    yield Part(line[end:])


def _with_code(line: str, colour: Mapping[str, bool] | None) -> Iterator[Part]:
    match = _CODE.match(line) if colour else None
    if match and colour:
        yield Part(match[0], colour)
        line = line[match.end() :]
    yield Part(line)
