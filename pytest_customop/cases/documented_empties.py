"""Read from an op's docstrings whether something may be empty, or must have entries."""

from __future__ import annotations

import functools
import re

from ..declare.ops import Op
from .documented import lines_about, sentences

# In the text about an argument: that it may be empty.
_EMPTY = re.compile(
    r"\b(may|can|could|might)( also)? be (0|zero|empty)\b|\bor empty\b"
    r"|\bempty\b[^.;]*\b(allowed|fine|ok|okay|accepted|valid|supported|gives?|returns?|yields?)\b"
    r"|\b(lengths?|sizes?)\b[^.;]*\b((zero|0),?\s+(is\s+)?(included|allowed)|including\s+(zero|0))\b"
)
_NONEMPTY_LIST = re.compile(r"\bnon-?empty\s+(list|sequence|tuple)s?\s+of\b", re.I)
_SAID_EMPTY = re.compile(r"\bempty\b", re.I)
_NO_ENTRIES = re.compile(r"\b([A-Z])\w* ?(=|==|>=|may be) ?0\b")  # of a size that has a letter
_NOT_EMPTY = re.compile(
    r"\bnot (be )?(0|zero|empty)\b|\bnon-?empty\b|\bat least\b|> ?0|>= ?1|\bpositive\b"
)


def allows_empty(op: Op, argument: str) -> bool:
    """Whether the text about an argument, or one about a size that it has, says that it may be empty.

    Nothing must say the contrary.
    """
    about = lines_about(op, argument)
    sizes = " ".join(re.findall(r"[(\[][^)\]]*[)\]]", about))
    letters = {match[1] for match in _NO_ENTRIES.finditer(_about_all(op))}
    allowed = _EMPTY.search(about) or any(re.search(rf"\b{letter}\b", sizes) for letter in letters)
    return bool(allowed) and not needs_entries(op, argument)


@functools.lru_cache(maxsize=256)  # asked for every dim
def _about_all(op: Op) -> str:
    """The texts about all arguments."""
    return " ".join(lines_about(op, argument.name) for argument in op.arguments)


@functools.lru_cache(maxsize=256)  # asked for every dim of every sample
def speaks_of_empty(op: Op) -> bool:
    """Whether a sentence says what the op does with something empty."""
    return any(
        _SAID_EMPTY.search(sentence) and not _NOT_EMPTY.search(sentence)
        for sentence in sentences(op, of_op=True)
    )


def needs_entries(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it, or one of its sizes, is at least 1.

    That a list must have tensors says nothing of their sizes.
    """
    about = _NONEMPTY_LIST.sub("", lines_about(op, argument))
    return _NOT_EMPTY.search(about) is not None
