"""Read from an op's docstrings which numbers an argument may hold: NaN, -inf, none below 0, a largest."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator

from ..declare.ops import Op
from .documentation import mention, mention_of_others
from .documented import lines_about, naming, sentences

# In a sentence about NaN or -inf: that there must be none, or that they are results.
_UNWANTED = re.compile(
    r"\b(no|not|never|without|except) (an? |any |be |contain |have |hold |include )*(nan|-?inf)"
    r"|\b(must|raises?|errors?|rejects?|finite|returns?|gives?|becomes?"
    r"|outputs?|results?)\b|->",
    re.I,
)
# In a sentence about -inf: numbers may be that, or else finite.
_OR_INFINITE = re.compile(r"\bfinite,? or [`*]*(?=-inf)", re.I)
_NEVER_ZERO = re.compile(
    r"\b(must|never|not|no|raises?|errors?|rejects?|non-?zero|positive|undefined)\b", re.I
)
_END_OF_CLAUSE = r"[.;]\s"
_NOT_NEGATIVE = re.compile(
    r">=?\s*0(?!\.\d|\w)|\bnon-?negative\b|(?<!non-)(?<!non)(?<!not )\bpositive\b(?! or negative)",
    re.I,
)
# In the text about a number.
_ZERO_ALLOWED = re.compile(
    r"(>=|\u2265)\s*0(?!\.?\d)|\bnon-?negative\b|\[\s*0(\.0)?\s*,|(?<![\d.])0(\.0)?`*\s*(<=|\u2264|to\b)"
    r"|\b(zero|0(\.0)?)`*,? (is|are|or (more|larger))\b|\b(may|can) be (0|zero)\b|\bat least (0|zero)\b",
    re.I,
)
# In the text about an argument: a number, or a number of times pi.
_PERIOD = re.compile(
    r"\b(period|repeats every|wraps every|periodic every|modulo|mod)`* (of |is |= ?)?`*"
    r"(?P<number>\d+(\.\d+)?(?!\w))?(?P<pi>\s?\*?\s?(pi|\u03c0)\b)?(?<=[\w\u03c0])",
    re.I,
)
# In the text about an argument.
_LARGE = re.compile(
    r"\b(large|big|huge|64[- ]bit) (integer|number|value|id|key)s?\b|\btimestamps?\b", re.I
)
_BOUNDARIES = re.compile(r"\b(bins?|boundar(y|ies)|thresholds?|quantiles?|cut[- ]?points?)\b", re.I)
# At the start of a clause: a number, or any below 0, and then what it does.
_MEANING = re.compile(
    r"(?:^|[.;,(:]\s*|\b(?:and|or|but|while|with|where|if)\s+)[`*]*(?:an?\s+|any\s+)?"
    r"(?P<number>negative(?:\s+(?:values?|numbers?|ones?))?|<\s?0|[-+]?inf(?:inity)?|-?\d+(?:\.\d+)?)[`*]*"
    r"\s*(?:\b(?:turns?|switch(?:es)?|means?|disables?|selects?|stands?\s+for|keeps?|leaves?|gives?|uses?"
    r"|skips?|stops?|removes?|ignores?|makes?|for\s+(?:no|none|all|the|an?))\b|:\s|->|=\s)",
    re.I,
)
_REJECTED = re.compile(
    r"\b(raises?|errors?|invalid|reject\w*|undefined|not (allowed|valid))\b", re.I
)
_LIMIT = re.compile(
    r"(\bat most\b|\bup to\b|\bmax(imum)?\b|\bless than\b|\bbelow\b|<|\bfits?\b|\b(in|within) \[)"
    r"(?![\s`]*(1e|10\*\*)([6-9]|\d\d))",  # a million or more is no limit for what a test tries
    re.I,
)

_MISSING = re.compile(
    r"\bNaN (?P<first>\w{3,}) (is|are|counts? as) (missing|absent|gaps?|ignored|skipped|left out)\b"
    r"|\bNaN (marks?|means?|is|stands for) (an? )?(missing|absent) (?P<second>\w{3,})",
    re.I,
)


def may_exceed_sizes(op: Op, argument: str) -> bool:
    """Whether a sentence says what the op does where a size is below a number: `fewer rows than k`."""
    name = rf"[`*]*{re.escape(argument)}\b"
    below = re.compile(
        rf"\b(fewer|less|smaller|shorter)\b( [\w`]+){{0,2}} than (the )?{name}"
        rf"|{name}[`*:]* (\w+ )?((larger|greater|more|longer|bigger) than|exceed\w*)\b",
        re.I,
    )
    named = (clause for each in naming(op, argument) for clause in each.split(";"))
    return any(below.search(clause) and not _REJECTED.search(clause) for clause in named)


def gives_meaning_to(number: str, op: Op, argument: str) -> bool:
    """Whether a sentence about an argument says that some of its elements may be NaN, or -inf.

    Args:
        number: `nan` or `-inf`.
    """
    named = re.compile(rf"(?<![\w.]){re.escape(number)}s?\b", re.I)
    about = (_OR_INFINITE.sub("", clause) for clause in _clauses_about(op, argument))
    said = any(named.search(clause) and not _UNWANTED.search(clause) for clause in about)
    if number == "nan":
        return said or _has_missing(op, argument)
    return said or _are_all_finite_or_infinite(op)


def _has_missing(op: Op, argument: str) -> bool:
    """Whether a sentence says "NaN readings are missing", and the argument is said to have readings."""
    about = " ".join(naming(op, argument))
    matches = (_MISSING.search(sentence) for sentence in sentences(op, of_op=True))
    words = (match["first"] or match["second"] for match in matches if match is not None)
    return any(re.search(rf"\b{word.rstrip('s')}s?\b", about, re.I) for word in words)


def _are_all_finite_or_infinite(op: Op) -> bool:
    """Whether a sentence that names no argument says that numbers are finite or -inf."""
    named = re.compile(mention(*(item.name for item in op.arguments)))
    return any(
        _OR_INFINITE.search(sentence) and not named.search(sentence)
        for sentence in sentences(op, of_op=True, results=False)
    )


@functools.lru_cache(maxsize=1024)  # asked for every sample
def may_be_zero(op: Op, argument: str) -> bool:
    """Whether a sentence says what is done where elements of an argument are 0."""
    zero = re.compile(
        rf"\b{re.escape(argument)}`*( ==? | (is|are|may be|can be|holds?|has|contains?) (exactly )?)"
        r"(0|zeros?)(?![\w.]*\d)\b",
        re.I,
    )
    about = _clauses_about(op, argument)
    return any(zero.search(clause) and not _NEVER_ZERO.search(clause) for clause in about)


def allows_zero(op: Op, argument: str) -> bool:
    """Whether the text about an argument, which is a number, allows 0 or says what it means."""
    means = 0.0 in numbers_with_meaning(op, argument)
    return means or _ZERO_ALLOWED.search(lines_about(op, argument)) is not None


def may_be_large(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that its integers may be large."""
    return _LARGE.search(lines_about(op, argument)) is not None


def are_boundaries(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it holds boundaries, such as `edges` of bins."""
    return _BOUNDARIES.search(lines_about(op, argument)) is not None


@functools.lru_cache(maxsize=1024)  # asked for every case
def period_of(op: Op, argument: str) -> float | None:
    """The number that the text about an argument gives as its period: `periodic with period 1`."""
    found = _PERIOD.search(lines_about(op, argument))
    if found is None:
        return None
    number = float(found["number"] or 1) * (math.pi if found["pi"] else 1)
    return number if number > 0 else None


@functools.lru_cache(maxsize=1024)  # asked for every sample
def numbers_with_meaning(op: Op, argument: str) -> tuple[float, ...]:
    """The numbers of which the text about an argument says what they mean: `0 turns it off`.

    -1 stands for "a negative number".
    """
    numbers: dict[float, None] = {}
    for clause in re.split(_END_OF_CLAUSE, lines_about(op, argument)):
        if _REJECTED.search(clause):
            continue
        for found in _MEANING.finditer(clause):
            text = found["number"].lower()
            is_negative = text.startswith(("negative", "<"))
            numbers[-1.0 if is_negative else float(text)] = None
    return tuple(numbers)


@functools.lru_cache(maxsize=1024)  # asked for every variant
def at_least_zero(op: Op, argument: str) -> bool:
    """Whether a docstring says that the numbers of an argument are not negative, and gives no largest."""
    said = any(map(_NOT_NEGATIVE.search, _clauses_about(op, argument)))
    return said and not limits_argument(op, argument)


def _clauses_about(op: Op, argument: str) -> Iterator[str]:
    """The parts of sentences that name an argument, and those of its own lines that name no other one."""
    name = re.compile(mention(argument))
    other = re.compile(mention_of_others(op, argument))
    own = re.split(_END_OF_CLAUSE, lines_about(op, argument))
    yield from (clause for clause in own if not other.search(clause))
    for sentence in sentences(op, of_op=True, results=False):
        yield from filter(name.search, re.split(_END_OF_CLAUSE, sentence))


def limits_argument(op: Op, argument: str) -> bool:
    """Whether the text about an argument, or a sentence that names it, gives a largest value."""
    name = mention(argument)
    # It limits another one: `col < n_cols`, `labels in [0, n_classes)`.
    of_others = re.compile(
        rf"(<=?|\bbelow|\bless than|\bat most|\bup to) `*{name}|\b(in|within) \[[^\])]*{name}[^\])]*[\])]",
        re.I,
    )
    about = [lines_about(op, argument), *filter(re.compile(name).search, sentences(op))]
    return any(_LIMIT.search(of_others.sub("", text)) for text in about)
