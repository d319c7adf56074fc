"""Read from an op's docstrings what the results for a group without members are."""

from __future__ import annotations

import functools
import re

from ..declare.ops import Op
from .argument_names import names_lengths, names_offsets
from .documented import sentences

# What is counted by `num_zones`, `n_bins`, `zone_count`.
_COUNT = re.compile(r"^(?:num|n|nr|number_of)_(?P<noun>[a-z]+?)s?$|^(?P<of>[a-z]+?)s?_count$")
_PARTS = r"segments?|bags?|rows?|groups?|sequences?|lists?|sets?|parts?|slices?"
_NOTHING = re.compile(
    r"\bempty\b|\b(has|have|contains?|gets?|with|hold) (none|no \w+)\b|\bwithout (any )?\w+"
    r"|\bno (\w+ ){0,2}(members?|entries|elements?|values?|points?|items?|rows?|samples?|cells?|edges?)\b",
    re.I,
)
_VALUE = re.compile(
    r"(?<![\w.\-+])(nan|zeros?|[-+]?inf(?:inity)?|-?\d+(?:\.\d+)?)(?![\w.]*\w)", re.I
)
_OTHER = re.compile(r"\b(gradients?|derivatives?|grad|raises?|error|invalid|default\w*)\b", re.I)


@functools.lru_cache(maxsize=1024)  # asked for every sample
def values_of_empty_groups(op: Op, argument: str) -> tuple[str, tuple[float, ...]] | None:
    """A clause that says what a group without members gives, and all numbers in such clauses.

    Args:
        argument: the number of groups, as `num_zones`, or their offsets or lengths.

    Returns:
        None without such a clause, or if the argument's name does not say what a group is.
    """
    noun = _noun(argument)
    if noun is None:
        return None
    named = re.compile(rf"\b({noun})\b", re.I)
    said, values = "", []
    for sentence in sentences(op, of_op=True):
        for clause in sentence.split(";"):
            if named.search(clause) and _NOTHING.search(clause) and not _OTHER.search(clause):
                found = [_number(text) for text in _VALUE.findall(clause)]
                said = said or " ".join(clause.split()) * bool(found)
                values += found
    return (said, tuple(values)) if said else None


def _noun(argument: str) -> str | None:
    """A pattern of the word for a group."""
    match = _COUNT.match(argument)
    if match:
        stem = match["noun"] or match["of"]
        return rf"{re.escape(stem.removesuffix('e'))}\w{{0,3}}"
    return _PARTS if names_offsets(argument) or names_lengths(argument) else None


def _number(text: str) -> float:
    word = text.lower()
    return 0.0 if word.startswith("zero") else float(word)
