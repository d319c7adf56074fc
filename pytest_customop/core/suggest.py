"""Suggest the name that was meant: the 'did you mean' of every error about a wrong name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_CUTOFF = 0.6
_PREFIX = 0.9  # the similarity of a word to one that begins with it


def misspelt(name: str, allowed: Iterable[str]) -> bool:
    """Whether a name is so similar to an allowed one that it must be a misspelling of it."""
    import difflib

    return bool(difflib.get_close_matches(name, allowed, n=1, cutoff=0.8))


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that was probably meant, or None.

    Names are compared by their spelling and by their words: `fake-strides` is near to
    `fake-stride-mismatch`, with which it shares two words.
    """
    scores = {choice: _similarity(name, choice) for choice in sorted(allowed)}
    best = max(scores, key=scores.__getitem__, default=None)
    return best if best is not None and scores[best] >= _CUTOFF else None


def did_you_mean(
    name: str, allowed: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> str:
    """`; did you mean 'x'?`, or an empty text where no allowed name is near.

    Args:
        synonyms: other words for allowed names.
    """
    near = (synonyms or {}).get(name.lower()) or nearest(name, allowed)
    return f"; did you mean {near!r}?" if near else ""


def unknown(
    kind: str, name: str, allowed: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> str:
    """One sentence about a name that is not allowed: what it is, what was meant, what is allowed."""
    choices = sorted(allowed)
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and {*several} <= {*choices}:
        hint = f"; did you mean the list {several!r}?"
    else:
        hint = did_you_mean(name, choices, synonyms)
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(choices)})"


def _similarity(name: str, choice: str) -> float:
    """From 0, nothing in common, to 1, equal."""
    return max(_ratio(name, choice), _shared_words(_words(name), _words(choice)))


def _ratio(first: str, second: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, first, second).ratio()


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _shared_words(words: list[str], choice: list[str]) -> float:
    """The share of the given words that a choice contains; less where the choice has more words."""
    if not words or not choice:
        return 0.0
    shared = sum(max(_word_similarity(word, candidate) for candidate in choice) for word in words)
    return shared / len(words) - 0.02 * max(0, len(choice) - len(words))


def _word_similarity(word: str, candidate: str) -> float:
    if word == candidate:
        return 1.0
    if min(len(word), len(candidate)) >= 3 and (
        word.startswith(candidate) or candidate.startswith(word)
    ):
        return _PREFIX
    ratio = _ratio(word, candidate)
    return ratio if ratio >= 0.75 else 0.0
