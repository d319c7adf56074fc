"""The exceptions of a check: a finding, or the reason why it did not judge."""

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
    """The report of a failed check.

    Args:
        code: the kind of defect, in kebab-case; an `Explanation` explains it.
        message: one line: which output, argument or size, and what is wrong with it.
        evidence: lines that show the defect: a table, the first differing element, a short traceback.
        fix: what to change; None takes the fix of the finding's explanation.
        repro: the lines of a script that show the defect with plain torch calls, if the check's own
            lines (`Check.repro`) do not.
        case: the case on which those lines show it, if that is not the case that was checked.
        note: why the finding is not a failure: `WITHIN_ROUNDING`, `NOT_ASKED`, `TORCH_LIMIT`, or
            `REFUSED_ON_PURPOSE`, which counts on variants only. None for a failure.
        picture: a picture of the values that differ, made by `cases.picture.picture_of`.
        shown: where the defect shows, if not in the op on the case's own arguments: at other sizes, in
            a layout, in an op that the backward calls.
        rejects_others: whether the op rejects similar arguments on purpose. It should then reject those
            of this case too, so the finding is a failure although the case is beyond the sample.
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
        unjudged: True if the author could believe that the property was checked. Such skips are listed
            one by one under the summary.
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
