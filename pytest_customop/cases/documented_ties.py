"""Read from an op's docstrings in which order equal elements come: `of equal scores, the first`."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import sentences

# In one sentence: equal elements, and which of them comes first.
_EQUAL = (
    r"\b(ties?|tied)\b|\b(equal|identical|same|equally)[- ](\w+ )?(scor\w*|keys?|values?|distances?|ranks?"
    r"|priorit\w+|costs?|weights?|logits?|probabilit\w+|elements?|entries|items|numbers|confidences?)\b"
    r"|\b(occurs?|appears?) (more than once|several times|again|twice)\b"
)
# Which number is repeated, and not which of them counts.
_REPEATED = re.compile(
    r"\b((?P<most>high|larg|great)|low|small)est (?=(?P<noun>\w+) (occurs?|appears?)\b)", re.I
)
_ORDER = (
    r"\b(stabl[ey]|in order|(keeps?|original|input|list|index|their|row) order|order (of|in which)"
    r"|(low|small|high|larg)(er|est) (index|indices|position|place|row|column)|first|earl(y|ier|iest)"
    r"|left-?most|right-?most|last|later)\b"
)
_PROMISED = re.compile(rf"(?=.*({_EQUAL}))(?=.*{_ORDER})", re.I | re.S)
# The first of equal elements comes first; the last one does.
_FIRST = re.compile(
    r"\b(stabl[ey]|first|earl(y|ier|iest)|(low|small)(er|est)|left-?most|(keeps?|original|input|list|their"
    r"|row|column) order|in order|order (of|in which))\b",
    re.I,
)
_LAST = re.compile(
    r"\b(last|later|latest|(high|larg|great)(er|est)|right-?most|reverse\w*|worst)\b", re.I
)
# In which direction the numbers go.
_FALLS = re.compile(
    r"\b(descend(ing|s)?|falling|decreasing|non-?increasing|(high|larg|great)est first|best first"
    r"|from (the )?(high|larg|great)(est)? (on|down|to))\b",
    re.I,
)
_RISES = re.compile(
    r"\b(ascend(ing|s)?|rising|increasing|non-?decreasing|(low|small|near)est first|from (the )?"
    r"(low|small|near)(est)? (on|up|to))\b",
    re.I,
)
_STABLE = re.compile(r"\bstabl[ey] (sort\w*|order\w*|rank\w*)|\bsort\w* (is )?stabl[ey]\b", re.I)
# The order is not said, or there is none.
_NOT_SAID = re.compile(
    r"\b(not|never|no)\b[^.;,]{0,24}\b(said|specified|defined|guaranteed|promised|stabl[ey]|preserved|kept"
    r"|order|matters?)\b|\bun(specified|defined|stable)\b|\b(any|either|arbitrary|some) order\b"
    r"|\barbitrar(y|ily)\b|\bimplementation\b|\b(averag\w+|mean|midranks?|share[ds]?|sub-?gradients?"
    r"|gradients?|derivatives?|random\w*)\b"
    # Another key decides.
    r"|\b(ties?|tied|equal)\b[^.;]*\bby (?!((the|their|its|list|input|lower|smaller) )*"
    r"(index|indices|position|order|place|row))",
    re.I,
)


def promises_order(op: Op) -> bool:
    """Whether a docstring says in which order equal elements come."""
    return bool(_promises(op))


def _promises(op: Op) -> list[str]:
    said = (_REPEATED.sub("", sentence) for sentence in sentences(op, of_op=True))
    return [
        sentence
        for sentence in said
        if (_PROMISED.search(sentence) or _STABLE.search(sentence))
        and not _NOT_SAID.search(sentence)
    ]


def first_comes_first(op: Op) -> bool:
    """Whether it is the first of equal elements that comes first."""
    said = _promises(op)
    return any(map(_FIRST.search, said)) and not any(map(_LAST.search, said))


def direction_of(op: Op, argument: str) -> int:
    """Whether the numbers of an argument come in rising order, 1, or in falling order, -1.

    Returns:
        0 unless a sentence says so that also has the first of equal elements first.
    """
    if not first_comes_first(op):
        return 0
    repeated = [
        match
        for match in map(_REPEATED.search, sentences(op, of_op=True))
        if match is not None and match["noun"].rstrip("s") == argument.rstrip("s")
    ]
    if repeated:  # the first of the highest counts as if the others were a little lower
        return -1 if repeated[0]["most"] else 1
    named = re.compile(rf"\b{re.escape(argument.rstrip('s'))}s?\b", re.I)
    said = [sentence for sentence in _promises(op) if named.search(sentence)]
    falls, rises = (any(map(words.search, said)) for words in (_FALLS, _RISES))
    return rises - falls
