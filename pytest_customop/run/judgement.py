"""Decide whether a finding is a failure or a note.

A finding on an author's own sample is a failure. So is one on a variant that stays within what the
sample shows. The rules and the reasons for them are in docs/checks.md.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cases.case import Case
from ..findings import (
    BEYOND_SAMPLE,
    NOT_ASKED,
    REFUSED_ON_PURPOSE,
    TORCH_LIMIT,
    WITHIN_ROUNDING,
    Finding,
)


class Note(NamedTuple):
    """Why a finding is no failure.

    Args:
        code: `beyond-sample`, `refused-on-purpose`, `within-rounding`, `not-asked` or
            `torch-limit`.
        reason: the same in words.
    """

    code: str
    reason: str


def note_for(case: Case, finding: Finding) -> Note | None:
    """Why a finding on a case is a note; None for a failure, as every finding on a strict case is.

    A check that changes the arguments by itself, as `fake.symbolic` changes sizes, says so in
    `finding.case`: a case that it shows its finding on is judged as a variant.
    """
    if case.strict:
        return None
    if finding.note == WITHIN_ROUNDING:
        return Note(WITHIN_ROUNDING, "rounding explains the difference")
    if finding.note == NOT_ASKED:
        return Note(NOT_ASKED, "the op has no autocast rule, which would say that it runs under it")
    if finding.note == TORCH_LIMIT:
        return Note(TORCH_LIMIT, "torch does the same with ops of its own")
    if finding.code == "gradient-missing" and case.placement.guesses_gradients:
        return Note(NOT_ASKED, "no tensor of the sample says requires_grad=True")
    shown_on = finding.case or case
    is_changed = shown_on is not case or case.base_case is not None
    if finding.note == REFUSED_ON_PURPOSE and is_changed:
        return Note(REFUSED_ON_PURPOSE, "the fake kernel raises on purpose")
    beyond = shown_on.beyond or case.beyond
    return Note(BEYOND_SAMPLE, beyond) if beyond else None
