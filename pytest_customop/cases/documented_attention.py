"""Read from an op's docstrings that the queries of an attention are those of the last tokens."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import sentences
from .documented_shapes import documented_shapes

_LAST = re.compile(
    r"\bquer(y|ies)\b( \w+)? (are|is|belongs? to|corresponds? to|comes? from|stands? for|holds?|sits? at)"
    r" (?!to )(\w+ ){0,3}\b(last|newest|latest|final)\b"
    r"|\blast quer(y|ies)\b[^.;]*\blast key|\bbottom[- ]?right\b"
    r"|\baligned (to|at|with) (the )?(\w+ )?(end|bottom)\b",
    re.I,
)
_QUERIES = re.compile(r"q|q_\w+|quer(y|ies)(_\w+)?", re.I)
_KEYS = re.compile(r"k|k_\w+|keys?(_\w+)?", re.I)
_HEADS = re.compile(r"n?_?h|h_?\w{1,2}|\w*heads?\w*", re.I)


def sentence_of_last_queries(op: Op) -> str:
    """The sentence which says that the queries are those of the last tokens; empty without one."""
    size = size_of_queries(op)
    if size is None:
        return ""
    first = re.compile(rf"\b\w+\s*-\s*`*{re.escape(size)}\b\s*\+")  # kv_len - q_len + i
    said = (text for text in sentences(op, of_op=True) if _LAST.search(text) or first.search(text))
    return " ".join(next(said, "").split())


def size_of_queries(op: Op) -> str | None:
    """How the text calls the number of queries, where keys have another; None without one."""
    shapes = documented_shapes(op)
    queries = next((shape for name, shape in shapes.items() if _QUERIES.fullmatch(name)), ())
    keys = next((shape for name, shape in shapes.items() if _KEYS.fullmatch(name)), ())
    if len(queries) != len(keys):
        return None
    differ = [
        query
        for query, key in zip(queries, keys, strict=True)
        if query != key and not _HEADS.fullmatch(query)
    ]
    return differ[0] if len(differ) == 1 else None
