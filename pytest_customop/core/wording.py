"""Make parts of sentences: names of torch's constants, counts, lists, first lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LONG = 240  # characters
_MANY = 4  # names
_QUOTED = 160  # characters of a docstring


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype without its module: `float32`."""
    return _without_module(dtype)


def layout_name(layout: torch.layout) -> str:
    """The name of a `torch.layout` without its module: `strided`, `sparse_coo`."""
    return _without_module(layout)


@functools.cache
def _without_module(constant: Hashable) -> str:
    return str(constant).removeprefix("torch.")


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless the count is 1: `1 case`, `3 cases`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def plain_number(number: float) -> str:
    """An integer with all of its digits; another number with six of them."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def listed(names: Sequence[str]) -> str:
    """One or more names as a sentence lists them: `x`, `x and y`, `x, y and z`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def listed_briefly(names: Iterable[str]) -> str:
    """The first four different names, and how many more there are: `a, b, c, d and 3 more`."""
    unique = list(dict.fromkeys(names))
    more = len(unique) - _MANY
    return ", ".join(unique) if more <= 0 else f"{', '.join(unique[:_MANY])} and {more} more"


def first_line(text: str) -> str:
    """The first line of a text without surrounding blanks, cut after 240 characters."""
    lines = text.strip().splitlines()
    first = lines[0].strip() if lines else ""
    return first if len(first) <= _LONG else f"{first[:_LONG]} ..."


def without_controls(text: str, instead: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """A text with its control characters replaced, except tabs and newlines.

    Characters that change the direction of text are replaced too, and so are halves of surrogate pairs,
    which UTF-8 cannot encode.
    """
    return _CONTROL.sub(instead, text)


def printable(text: str) -> str:
    """A text for one line of a terminal: unprintable characters are escaped, as `\\x1b`."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def docstring_says(sentence: str) -> str:
    """A sentence of a docstring, shortened, with where it comes from."""
    return f'A docstring says: "{shorten(sentence, _QUOTED)}"'
