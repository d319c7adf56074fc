"""Read from an op's docstrings on which side of a limit a number that equals it is."""

from __future__ import annotations

import functools
import re

from ..declare.ops import Op
from .documentation import mention
from .documented import sentences

_LARGER = r"(greater|larger|more|longer|higher|farther|further)"
_SMALLER = r"(less|smaller|fewer|shorter|closer|nearer|lower)"
_OPEN = r"(?<![\w)\]])"  # no index and no call
# Before the name of a limit, and behind it: which numbers are meant. `+`: a number that equals the limit is
# on the side of larger ones.
_BEFORE = (
    (rf"(<=|\u2264|\bat most|\b(not|no) {_LARGER} than)\s*", "-"),
    (rf"((?<![<])<|(?<!not )(?<!no )\b{_SMALLER} than)\s*", "+"),
    (rf"(>=|\u2265|\bat least|\b(not|no) {_SMALLER} than)\s*", "+"),
    (rf"((?<![->=])>|(?<!not )(?<!no )\b{_LARGER} than)\s*", "-"),
    (rf"{_OPEN}\(\s*\w+(\[\w+\])?\s*-\s*", "+"),  # (t - window, t]
    (rf"{_OPEN}\[\s*\w+(\[\w+\])?\s*-\s*", "-"),
)
_BEHIND = (
    (r"\s*(<=|\u2264)", "+"),
    (r"\s*<(?!=)", "-"),
    (r"\s*(>=|\u2265)", "-"),
    (r"\s*>(?!=)", "+"),
)
_INDEX = r"(\[\w+( ?[+-] ?\w+)?\])?"
_OTHER = rf"`*\w+{_INDEX}`*"
_AROUND = (
    (rf"{_OPEN}[\[(][^\[\]()]*,[^\[\]()]*\+\s*", r"\s*\)", "+"),  # [t, t + window)
    (rf"{_OPEN}[\[(][^\[\]()]*,[^\[\]()]*\+\s*", r"\s*\]", "-"),
    (rf"{_OPEN}\[\s*", rf"\s*,\s*{_OTHER}\s*\)", "+"),  # [start, end)
    (rf"{_OPEN}\[\s*{_OTHER}\s*,\s*", r"\s*\)", "+"),
    (rf"{_OPEN}\(\s*", rf"\s*,\s*{_OTHER}\s*\]", "-"),
    (rf"{_OPEN}\(\s*{_OTHER}\s*,\s*", r"\s*\]", "-"),
)
# What an op accepts is no limit of what it does.
_OF_ARGUMENTS = re.compile(
    r"\b(must|has to|have to|should|raises?|rejects?|rejected|errors?|valid|allowed|expected|not supported"
    r"|\w+Error)\b",
    re.I,
)


@functools.lru_cache(maxsize=1024)  # asked for every sample
def side_of_limit(op: Op, argument: str) -> tuple[str, str] | None:
    """The side on which a number that equals a limit is: `+` for that of larger numbers, `-` for the other.

    Args:
        argument: whose value, or each of whose elements, is a limit.

    Returns:
        The side and the sentence that says so; None without one, or if sentences contradict each other.
    """
    name = rf"`*{mention(argument)}{_INDEX}(?![\w(\[]|\.\w)`*"
    patterns = [(before + name, side) for before, side in _BEFORE]
    patterns += [(name + behind, side) for behind, side in _BEHIND]
    patterns += [(before + name + behind, side) for before, behind, side in _AROUND]
    said: dict[str, str] = {}
    for sentence in sentences(op, of_op=True):
        for clause in re.split(r";|\. ", sentence):
            if _OF_ARGUMENTS.search(clause):
                continue
            for pattern, side in patterns:
                if re.search(pattern, clause, re.I):
                    said.setdefault(side, " ".join(clause.split()))
    return next(iter(said.items())) if len(said) == 1 else None
