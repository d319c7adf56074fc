"""Read from an op's docstrings what it rejects: dtypes, and positions outside of their range.

Only plain sentences count, which say that something raises, and what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from ..declare.ops import Op
from .documentation import mention, mention_of_others
from .documented import lines_about, naming, pads_with_negative, sentences

_RAISES = r"\b(raise[sd]?|reject(s|ed)?|[A-Z]\w*Error)\b"
_DTYPE_NAME = r"\b(b?float(16|32|64|8\w*)|double|u?int(8|16|32|64)|complex(64|128)|bool)\b"
# "Other dtypes raise TypeError", "raises TypeError for other dtypes", "float32 (TypeError otherwise)".
_OTHER_DTYPES = re.compile(
    rf"\bother( or mixed| kinds of)? dtypes?\b[^.;]*{_RAISES}"
    rf"|{_RAISES}[^.;]*\b(on|for|of|if|in case of)\b[^.;]*\b(an)?other( or mixed)? dtypes?\b"
    rf"|{_DTYPE_NAME}[^.;]*\bTypeError (otherwise|for anything else)\b"
    rf"|{_DTYPE_NAME}[^.;]*\b(others|(any|every)thing else) raises? (a )?TypeError\b",
    re.I,
)
_NEGATED = re.compile(r"\b(not|no|never|nor|without|unless|except|but)\b", re.I)
# How a docstring names the dtypes of a category.
_CATEGORIES = {
    "integer": r"\b(u?int(8|16|32|64)|integers?|integral|whole numbers?|byte|long|real)\b",
    "complex": r"\bcomplex(64|128)?\b",
}
_FLOATS = re.compile(r"\b(b?float(16|32|64)?s?|double|half|floating)\b", re.I)
_ALL = r"\b((any|all) dtypes?|numeric)\b"
_OF_CATEGORY = {"integer": (torch.int32, torch.int64), "complex": (torch.complex64,)}
_OUTSIDE = re.compile(
    r"\b(outside|out[ -]of[ -](range|bounds)|not in \[0|in \[0|beyond)\b|\bin \[0|0 ?<=", re.I
)
_KIND_OUTSIDE = re.compile(
    r"\b(an?|any) (?P<noun>[a-z]{3,}) (outside|out of (range|bounds)|not in)\b", re.I
)
# About positions: one may be equal to a size.
_UP_TO_SIZE = re.compile(r"<= ?\w+\b(?! ?<)|\b(at most|inclusive|up to)\b|, ?\w+\]")
_NEGATIVE = re.compile(r"\bnegative\b|\bbelow (0|zero)\b|< ?0\b|>= ?0\b", re.I)
_ELSE = re.compile(
    r"\b(pad(ding|ded)?|ignor\w*|-\d+|miss(ing|es)|clamp(s|ed)?|wrap(s|ped)?)\b|-\d", re.I
)
# What ends a part of a sentence. "x must lie in [0, N); a ValueError is raised otherwise" is one part.
_END = re.compile(
    r"[.;]\s(?!(?:an? )?(?:\w*Error\b[^.;,]*\b)?otherwise\b)|\.$"
    r"|,\s+(?=(?:an? )?[A-Z]\w*Error\b(?![^.;,]*\botherwise\b))"
)
# Numbers that are rejected, too.
_EXAMPLES = re.compile(r"\b(such as|like|including|even) [^,.;]*", re.I)


def rejected_dtypes(op: Op) -> tuple[str, tuple[torch.dtype, ...]] | None:
    """The sentence which says that other dtypes raise, and dtypes of categories that nothing mentions.

    None where no sentence says so, or where none names a floating-point dtype, so that "other" is unclear.
    A dtype whose category is mentioned is not returned: not float16 where the docstring mentions float32.
    """
    every = [*sentences(op, of_op=True)]
    said = next((text for text in every if _says_other_dtypes(text)), None)
    if said is None or not any(map(_FLOATS.search, every)):
        return None
    unnamed = [
        dtype
        for category, names in _CATEGORIES.items()
        if not any(re.search(f"{names}|{_ALL}", text, re.I) for text in every)
        for dtype in _OF_CATEGORY[category]
    ]
    return said, tuple(unnamed)


def _says_other_dtypes(sentence: str) -> bool:
    match = _OTHER_DTYPES.search(sentence)
    return match is not None and not _NEGATED.search(match[0])


def rejected_positions(op: Op, argument: str) -> tuple[str, bool] | None:
    """The sentence which says that positions out of range raise, and whether that includes large ones.

    None where no sentence about this argument says so, or where another number may have a meaning.
    """
    if pads_with_negative(op):
        return None
    for sentence in (*_sentences_about(op, argument), *_sentences_of_its_kind(op, argument)):
        text = _in_one_line(sentence)
        if not re.search(_RAISES, text) or _ELSE.search(_EXAMPLES.sub("", text)):
            continue
        if _OUTSIDE.search(text):
            return text, True
        if _NEGATIVE.search(text):
            return text, False
    return None


def may_equal_size(op: Op, argument: str) -> bool:
    """Whether the text about positions says that one may be equal to a size."""
    return _UP_TO_SIZE.search(lines_about(op, argument)) is not None


def _sentences_about(op: Op, argument: str) -> Iterator[str]:
    """The text about an argument, and sentences that name it or its entries, but no other argument."""
    named = _names_of(argument)
    other = re.compile(mention_of_others(op, argument))
    about = _parts(lines_about(op, argument))
    parts = [part for text in sentences(op, of_op=True) for part in _parts(text)]
    for part in [*about, *filter(named.search, parts)]:
        if not other.search(_rest(part)):
            yield part


def _sentences_of_its_kind(op: Op, argument: str) -> Iterator[str]:
    """Sentences about "a player outside ..." where an argument is said to have players."""
    clauses = (clause for sentence in naming(op, argument) for clause in sentence.split(";"))
    named = re.compile(mention(argument))
    about = " ".join(clause for clause in clauses if named.search(clause))
    for sentence in sentences(op, of_op=True):
        for part in _parts(sentence):
            kind = _KIND_OUTSIDE.search(part)
            if kind is not None and re.search(rf"\b{kind['noun']}s?\b", about, re.I):
                yield part[: kind.end()] + part[kind.end() :].partition(",")[0]


def _parts(text: str) -> list[str]:
    return _END.split(text)


def _rest(text: str) -> str:
    """A sentence without its brackets, in which shapes and bounds name other arguments."""
    return re.sub(r"\([^)]*\)|\[[^\])]*[\])]", "", text)


def _names_of(argument: str) -> re.Pattern[str]:
    """A pattern for an argument and one of its entries: `ids` and `an id`, `idx` and `an index`."""
    names = {argument, argument.removesuffix("s")}
    if argument in ("idx", "ind", "index", "indices"):
        names |= {"index", "indices"}
    long = [name for name in names if len(name) > 1]
    return re.compile(mention(*(long or [argument])), re.I)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
