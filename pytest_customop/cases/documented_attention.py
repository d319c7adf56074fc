"""Read from an op's docstrings which tokens the queries of an attention are, and how heads are shared."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import sentences
from .documented_shapes import Shape, documented_shapes

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
# Consecutive heads share one of the keys; or those that are a number of heads apart do.
_CONSECUTIVE = re.compile(
    r"//|\b(consecutive|contiguous|adjacent|successive|neighbou?ring)\b|\brepeat_interleave\b|\bruns? of\b",
    re.I,
)
_APART = re.compile(
    r"%(?!\s*\w+`*\s*==\s*0)|\bmod(ulo)?\b|\binterleaved\b|\bround[- ]robin\b|\bstrided\b|\btiled\b",
    re.I,
)


def names_of_heads(op: Op) -> tuple[str, str] | None:
    """How the text calls the numbers of heads of queries and of keys, if they may differ."""
    queries, keys = (
        [dim for dim in shape if _HEADS.fullmatch(dim)] for shape in _shapes_of_queries_and_keys(op)
    )
    pair = (queries[0], keys[0]) if len(queries) == len(keys) == 1 else None
    return pair if pair and pair[0] != pair[1] else None


def sentence_of_shared_heads(op: Op) -> str:
    """The sentence which says that consecutive heads share one of the keys; empty without one."""
    about = [text for text in sentences(op, of_op=True) if "head" in text.lower()]
    return " ".join(next(filter(_CONSECUTIVE.search, about), "").split())


def shares_heads_apart(op: Op) -> bool:
    """Whether a sentence on heads says that those share one of the keys that are not consecutive."""
    return any(_APART.search(text) for text in sentences(op, of_op=True) if "head" in text.lower())


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
    queries, keys = _shapes_of_queries_and_keys(op)
    if len(queries) != len(keys):
        return None
    differ = [
        query
        for query, key in zip(queries, keys, strict=True)
        if query != key and not _HEADS.fullmatch(query)
    ]
    return differ[0] if len(differ) == 1 else None


def _shapes_of_queries_and_keys(op: Op) -> tuple[Shape, Shape]:
    shapes = documented_shapes(op)
    queries = next((shape for name, shape in shapes.items() if _QUERIES.fullmatch(name)), ())
    keys = next((shape for name, shape in shapes.items() if _KEYS.fullmatch(name)), ())
    return queries, keys
