"""Read from an op's docstrings whether the entries of a batch are independent, unbatched or padded."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import first_sentence, lines_about, naming, sentences

# In one sentence: the entries of a batch do not influence each other.
_INDEPENDENT = re.compile(
    r"\b(each|every)\b[^.;]*\b(on its own|by itself|independent(ly)?|separately|alone)\b(?! of)"
    r"|\b(independent(ly)?|separately) (for|across|over|in|on|to|by|per) (each|every|all|the|batch|row)\b"
    r"|\b\w+s are( \w+){0,2} (independent(ly)?|separately)\b(?! of)"
    r"|\b(for|of|over) independent (series|rows|sequences|signals|items|entries|samples|problems)\b"
    r"|\b(each|every)\b[^.;]*\bindependent(ly)? of (the|all|any) others?\b"
    r"|\bbatch (are|do)\b[^.;]*\b(independent of|not (affect|influence)) (each other|one another)\b",
    re.I,
)
# In one sentence: elements behind the end of a sequence, and that they are ignored.
_IGNORED_PADDING = re.compile(
    r"(?=.*\b(padding|padded|behind|beyond|past)\b)"
    r"(?=.*\b(ignored|skipped|disregarded|(not|never) (read|used|counted|looked)|no (effect|influence))\b)"
    r"|\b(any (content|values?|numbers?)|anything) (behind|beyond|past|after)\b"
    r"|(?=.*(\b(first|leading|behind|beyond|up to|padding|padded)\b|\.\.))\bonly\b[^;]*?"
    r"\b(takes? part|counts?|contributes?|participates?|(is|are) (read|used|seen|attended))\b"
    r"|\b(number|count) of (valid|real|unpadded) \w+"
    r"|\blen(gth)?s?\b[^.;,]{0,8}\b(valid|real|unpadded) \w+",
    re.I | re.S,
)
# In the text about lengths: that one may be 0.
_FROM_ZERO = re.compile(
    r"(?<![\d.])0`*\s*(\.\.|to\b|through\b|<=|\u2264|-|\u2013)|\[0,|\b(may|can) be (0|zero)\b", re.I
)
# In one sentence: a sequence without steps.
_EMPTY = re.compile(
    r"^(?=.*\b(len(gth)?s?|counts?|sequences?|segments?|bags?|rows?)\b)"
    r"(?=.*(\b(zero|empty)\b|(?<![\w.\[])0(?![\w.])(?!`*\s*(:|-?th\b))))"
    r"|\b(with|has|have|sees?|contains?|of|are) no (valid |visible |real )?"
    r"(keys?|steps?|frames?|tokens?|elements?|entr(y|ies)|positions?)\b",
    re.I,
)
# In the text about lengths: that none is 0.
_FROM_ONE = re.compile(
    r"\b(from|at least) (1|one)\b|>= ?1\b|> ?0\b|\bpositive\b|\bnon-?empty\b|(?<![\d.])1`*\s*(\.\.|to\b)",
    re.I,
)
_UNBATCHED = re.compile(
    r"\bun-?batched\b|\b(batch of one|single (entry|sample|image|sequence))\b", re.I
)


def sentence_of_independence(op: Op) -> str:
    """The sentence which says that each entry of a batch is computed on its own; empty without one."""
    return first_sentence(op, _INDEPENDENT)


def takes_unbatched(op: Op) -> bool:
    """Whether a sentence says that the op also takes an entry without a batch dim."""
    return any(map(_UNBATCHED.search, sentences(op, of_op=True)))


def sentence_of_padding(op: Op) -> str:
    """The sentence which says that elements behind the end of a sequence are ignored; empty without one."""
    return first_sentence(op, _IGNORED_PADDING)


def allows_empty_sequences(op: Op, lengths: str) -> bool:
    """Whether the text about an argument of lengths, or a sentence, says that one may be 0."""
    about = lines_about(op, lengths)
    if _FROM_ONE.search(about):
        return False
    from_zero = any(map(_FROM_ZERO.search, (about, *naming(op, lengths))))
    return from_zero or any(map(_EMPTY.search, sentences(op, of_op=True)))


def sentence_of_empty_sequences(op: Op) -> str:
    """The sentence that speaks of an empty sequence, segment or bag; empty without one."""
    return first_sentence(op, _EMPTY)
