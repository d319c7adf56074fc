"""Read from an op's docstrings the closed ranges of its arguments: `[0, 1]`."""

from __future__ import annotations

import functools
import re

from ..declare.ops import Op
from .documentation import mention_of_others
from .documented import lines_about, naming, sentences

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_CLOSED = re.compile(rf"\[\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\]")
# The two ends may mean the same, or an end may have a meaning of its own.
SPECIAL_ENDS = re.compile(
    r"\b(wrap\w*|period\w*|modulo|cyclic|circular|remainder|hue|phases?|turns?|exactly|strictly|exclusive"
    r"|excluded|disable[sd]?|(is|are) [<>]=|at or (above|below)|on or (outside|beyond))\b",
    re.I,
)
# In a sentence about an argument: that it may be at the ends of its range.
_ENDS_INCLUDED = re.compile(
    r"\b(inclusive|included|closed (range|interval)|both ends|including (both|the ends?|[01]))\b"
    r"|\bfully \w+ (and|or) fully \w+\b"
    r"|\b[01](\.0)? and 1(\.0)? (are|included|allowed)\b",
    re.I,
)


def sentences_on_ranges(op: Op) -> list[str]:
    """The sentences about an op; none if the ends of ranges may be special."""
    texts = [*sentences(op, of_op=True)]
    return [] if any(map(SPECIAL_ENDS.search, texts)) else texts


@functools.lru_cache(maxsize=1024)  # asked for every sample
def closed_ranges(op: Op, argument: str) -> tuple[tuple[float, float], ...]:
    """The closed ranges in sentences that name an argument, from 0 or less to more than 0.

    Empty if the ends may be special.
    """
    texts = sentences_on_ranges(op)
    named = re.compile(rf"\b{re.escape(argument.removesuffix('s'))}s?\b", re.I)
    others = re.compile(mention_of_others(op, argument))
    about = [lines_about(op, argument), *filter(named.search, texts)] if texts else []
    parts = [part for text in about for part in re.split(r"[.;]\s", text)]
    own = [part for part in parts if named.search(part) or not others.search(part)]
    found = [match.groups() for part in own for match in _CLOSED.finditer(part)]
    pairs = [(float(low), float(high)) for low, high in found]
    return tuple((low, high) for low, high in dict.fromkeys(pairs) if low <= 0 < high)


def includes_ends(op: Op, argument: str) -> bool:
    """Whether a text about an argument says that it may be at the ends of its range."""
    return any(map(_ENDS_INCLUDED.search, (lines_about(op, argument), *naming(op, argument))))
