"""'Did you mean': the one phrase with which every wrong name is answered."""

from __future__ import annotations

from collections.abc import Iterable


def misspelt(name: str, allowed: Iterable[str]) -> bool:
    """Whether a name is so near to an allowed one that nothing else can be meant."""
    import difflib

    return bool(difflib.get_close_matches(name, allowed, n=1, cutoff=0.8))


def unknown(kind: str, name: str, allowed: Iterable[str]) -> str:
    """One sentence on a name that is not allowed: what it is, the near miss, what is allowed."""
    import difflib

    choices = sorted(allowed)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(choices)})"
