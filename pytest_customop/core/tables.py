"""Print rows of text as columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

_HANGING = 4  # blanks before the continuation of a line


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table: columns padded to their widest cell, two spaces apart.

    Args:
        rows: one or more, all of one length; a heading is a row like the others.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def fitted(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table; if it is wider than `width`, columns are not padded, so that it can be wrapped.

    Args:
        rows: as in `aligned`.
    """
    table = aligned(rows)
    if max(map(len, table)) <= width:
        return table
    return ["  ".join(filter(None, row)) for row in rows]


def wrapped(line: str, width: int) -> list[str]:
    """Wrap a line to lines of at most `width` characters, except where a word is longer.

    The lines after the first are indented further. Two blanks remain between columns.
    """
    if len(line) <= width:
        return [line]
    text = line.lstrip(" ")
    indent = line[: len(line) - len(text)]
    return textwrap.wrap(
        re.sub(" {2,}", "  ", text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
    )
