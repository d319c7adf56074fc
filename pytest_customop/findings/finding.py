"""What a check raises: a finding, or the reason why it did not judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The codes of notes: why a finding is not a failure.
BEYOND_SAMPLE = "beyond-sample"
REFUSED_ON_PURPOSE = "refused-on-purpose"
WITHIN_ROUNDING = "within-rounding"
NOT_ASKED = "not-asked"
TORCH_LIMIT = "torch-limit"


@dataclass(frozen=True)
class Finding:
    """What a failed check reports.

    Args:
        code: of the kind of defect, in kebab-case; `Explanation` explains it.
        message: one line: which output, argument or size, and what is wrong with it.
        evidence: the lines that show it: a table, the first differing element, a shortened traceback.
        fix: what to change; None takes the fix of the finding's explanation.
        repro: the lines of a script that show it by plain torch calls, where those of the check do
            not (see `Check.repro`).
        case: the case on which those lines show it, where that is another than the one checked.
        note: why the finding is not a failure: `REFUSED_ON_PURPOSE`, which counts on variants only, or
            `WITHIN_ROUNDING`, `NOT_ASKED` or `TORCH_LIMIT`; None for one that fails.
        picture: of values that differ, as `cases.picture.picture_of` makes it.
        shown: on what it shows, where that is not the op on the case's own arguments: other sizes, a
            layout, an op that the backward calls.
        rejects_others: whether the op rejects arguments like those of a variant beyond the sample on
            purpose. Then it should reject these too, and the finding is a failure.
    """

    code: str
    message: str
    evidence: str = ""
    fix: str | None = None
    repro: str | None = None
    case: Any = None
    note: str | None = None
    picture: Mapping[str, Any] | None = None
    shown: str = ""
    rejects_others: bool = False


class CheckFailed(Exception):
    """Raised by a check that found a defect."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.code}: {finding.message}")
        self.finding = finding


class CheckSkipped(Exception):
    """Raised by a check that had nothing to check, or could not judge.

    Args:
        code: the kind of reason, in kebab-case (`no-second-size`, `checker-limit`).
        reason: one or two sentences: why, and the way out if there is one.
        unjudged: True where the author could believe that the property was checked; such skips are
            listed one by one under the summary.
    """

    def __init__(self, code: str, reason: str, *, unjudged: bool = True) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason
        self.unjudged = unjudged


def fail(
    code: str,
    message: str,
    evidence: str = "",
    fix: str | None = None,
    *,
    repro: str | None = None,
    case: Any = None,
    note: str | None = None,
    picture: Mapping[str, Any] | None = None,
    shown: str = "",
    rejects_others: bool = False,
) -> CheckFailed:
    """The exception for a finding: `raise fail("fake-shape-mismatch", "output 0 ...", table)`."""
    return CheckFailed(
        Finding(code, message, evidence, fix, repro, case, note, picture, shown, rejects_others)
    )


def skip(code: str, reason: str, *, unjudged: bool = True) -> CheckSkipped:
    """The exception for a skip: `raise skip("not-smooth", "...")`."""
    return CheckSkipped(code, reason, unjudged=unjudged)
