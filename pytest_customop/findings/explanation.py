"""The explanation of one finding: what it means, why it matters, what to change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """One entry of the catalogue, in plain English.

    Args:
        meaning: what is wrong, in one or two sentences.
        fix: what to change; it ends every failure of this code.
        why: what breaks because of it, and when.
        before, after: a few lines of Python with the defect, and the same lines corrected.
        docs: addresses of the torch documentation to read.
        follows: the codes of defects that cause this one, or `family.*` for all codes of a family.
            If one of them is found on the same case, the report shortens this finding to one line.
    """

    meaning: str
    fix: str
    why: str = ""
    before: str = ""
    after: str = ""
    docs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
