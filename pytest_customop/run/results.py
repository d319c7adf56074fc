"""The result of a check on a case, and its text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..plan.place import Place
from .record import FindingRecord, Outcome, ResultRecord
from .registering import registers
from .repro import Script


@dataclass(frozen=True)
class CheckResult:
    """One check on one case: what `check_op` returns.

    Args:
        op: `namespace::name`.
        check: `family.name`; empty if nothing ran.
        case: the case's id.
        outcome: `passed`, `failed`, `error` (the check itself broke), `skipped`, or `noted` (a finding
            that is not a failure).
        found: the finding of a failed check, or of a note.
        message: the finding in one line, or why the check was skipped.
        evidence: the lines that show the finding.
        skip_code: the kind of a skip, `no-second-size`; of a note, why it is not a failure.
        why_noted: of a note, why it is not a failure, in words.
        unjudged: whether a skip leaves unjudged what the author may believe was judged.
        accepted_by_fake: whether the fake kernel accepts a variant that the op rejects.
        reported_above: whether an earlier result shows the same finding in full.
        arguments: the op's arguments, described; only where there is a finding or an error.
        variant_description: what was changed in a variant of a sample; empty for a sample itself.
        duration: seconds.
        place: device, dtype, requires_grad, layout, sample and variant.
        seed: of the values that are drawn for the case.
        picture: of values that differ.
        shown: where the finding shows, if it is not the op on these arguments.
        reproduce: makes the script of a failure, given the lines that register the op.
    """

    op: str
    check: str
    case: str
    outcome: Outcome
    found: FindingRecord | None = None
    message: str = ""
    evidence: str = ""
    skip_code: str | None = None
    why_noted: str = ""
    unjudged: bool = False
    accepted_by_fake: bool = False
    reported_above: bool = False
    arguments: tuple[str, ...] = ()
    variant_description: str = ""
    duration: float = 0.0
    place: Place = Place()  # noqa: RUF009 -- frozen
    seed: int | None = None
    picture: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    shown: str = ""
    reproduce: Callable[[str], Script] | None = field(default=None, repr=False, compare=False)

    @property
    def finding(self) -> str | None:
        """The code of the finding; None if there is none."""
        return self.found.code if self.found else None

    @property
    def fix(self) -> str | None:
        """What to change; None if there is no finding."""
        return self.found.fix if self.found else None

    @property
    def reason(self) -> str:
        """Why a check was skipped, or why its finding is a note, and the finding: one line."""
        return self.record().reason

    def record(self, nodeid: str = "") -> ResultRecord:
        """The result as a session keeps it."""
        return ResultRecord(
            nodeid=nodeid,
            op=self.op,
            check=self.check or None,
            place=self.place,
            outcome=self.outcome,
            message=self.message,
            finding=self.found,
            variant_description=self.variant_description,
            skip_code=self.skip_code,
            why_noted=self.why_noted,
            unjudged=self.unjudged,
            accepted_by_fake=self.accepted_by_fake,
            evidence=self.evidence,
            arguments=self.arguments,
            seed=self.seed,
            picture=self.picture,
            duration=self.duration,
        )

    def script(self, module: ModuleType | None = None) -> Script | None:
        """The script that fails with plain torch calls; None if nothing failed, or no script is known.

        Args:
            module: a module that registers the op on import, if the op is not made by
                `torch.library.custom_op` at the top level of a module.
        """
        return self.reproduce(registers(self.op, module)) if self.reproduce else None

    def text(
        self,
        rerun: str | None = None,
        script: Script | Path | None = None,
        seen_in: str | None = None,
    ) -> str:
        """The whole text of the result; one line for one that passed or was skipped.

        Args:
            rerun: the command that runs this one item again.
            script: the script that shows the same without pytest, or the path that it was written to.
            seen_in: the test in which this call was recorded, if it was.
        """
        if self.outcome in ("passed", "skipped"):
            reason = f": {self.reason}" if self.message else ""
            return f"{self.outcome} {self.op} {self.check} [{self.case}]{reason}"
        if self.reported_above:
            return f"{self.finding}: {self.message} (reported in full above) [{self.check}]"
        lines = [f"{self.finding or self.outcome}: {self.message}", "", *_where(self)]
        if self.outcome == "noted":
            lines.insert(2, _labelled("note", f"{self.skip_code}: {self.why_noted}"))
        if self.evidence:
            lines += ["", self.evidence]
        if self.fix:
            lines += ["", *_folded("fix", self.fix)]
            lines += _folded("", _UNSUPPORTED) if self.variant_description else []
        if seen_in:
            lines += [_labelled("seen", f"first in {seen_in}")]
        if rerun:
            lines += [_labelled("rerun", rerun)]
        if isinstance(script, Path):
            lines += [_labelled("repro", str(script))]
        elif script is not None:
            lines += [_labelled("repro", "--customop-repro-dir=DIR writes a script without pytest")]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


_INDENT = " " * 7
_UNSUPPORTED = (
    "If such inputs are not supported, have the op raise an exception that says so, or leave them out "
    "by `variants=` in the mark."
)


def _where(result: CheckResult) -> list[str]:
    """The op, the check, the case and its arguments, a line each."""
    lines = [_labelled("op", result.op), _labelled("check", result.check)]
    lines.append(_labelled("case", result.case))
    if result.variant_description:
        lines.append(f"{_INDENT}a variant of the sample: {result.variant_description}")
    lines += [f"{_INDENT}  {argument}" for argument in result.arguments]
    return [*lines, *([f"{_INDENT}shown {result.shown}"] if result.shown else [])]


def _labelled(label: str, text: str) -> str:
    return f"{label:<6} {text}"


def _folded(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent=_labelled(label, ""), subsequent_indent=_INDENT)
