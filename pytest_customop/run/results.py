"""What came of a check on a case, and how it reads."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from .repro import Script, registers

TOLD_ABOVE = "(told in full above)"  # the evidence of a result that repeats another one
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


@dataclass(frozen=True)
class CheckResult:
    """One check on one case; what `check_op` returns, and what the report holds.

    Args:
        op: `namespace::name`.
        check: `family.name`.
        case: the case's id.
        change: what tells a variant from the sample that it stands beside; empty for an own case.
        outcome: `passed`, `failed`, `error` (the check itself broke) or `skipped`.
        finding: the code of the finding, or None.
        message: the finding in one line, or why the check was skipped.
        fix: what to change.
        evidence: the lines that show the finding.
        skip_code: the kind of a skip, `no-second-size`.
        unjudged: a skip that leaves unjudged what the author may believe was judged.
        arguments: the op's arguments, described; only for what failed.
        duration: seconds.
        place: device, dtype, requires_grad, layout and sample.
        reproduce: makes the script of a failure, given the lines that register the op.
    """

    op: str
    check: str
    case: str
    outcome: str
    finding: str | None = None
    message: str = ""
    fix: str | None = None
    evidence: str = ""
    skip_code: str | None = None
    unjudged: bool = False
    arguments: tuple[str, ...] = ()
    change: str = ""
    duration: float = 0.0
    place: dict[str, Any] = field(default_factory=dict)
    reproduce: Callable[[str], Script] | None = field(default=None, repr=False, compare=False)

    def record(self) -> dict[str, Any]:
        """The result as it stands in the report, less its node id and repro."""
        message = f"{self.skip_code}: {self.message}" if self.skip_code else self.message
        return {
            "op": self.op,
            "check": self.check,
            **self.place,
            "outcome": self.outcome,
            "finding": self.finding,
            "message": message,
            "fix": self.fix,
            "duration": self.duration,
        }

    def script(self, module: ModuleType | None = None) -> Script | None:
        """The script that fails by plain torch calls; None where nothing failed, or none is known.

        Args:
            module: one that registers the op when it is imported, where the op is not made by
                `torch.library.custom_op` at the top level of a module.
        """
        return self.reproduce(registers(self.op, module)) if self.reproduce else None

    def text(self, rerun: str | None = None, script: Script | Path | None = None) -> str:
        """The whole text of the result; one line for one that passed or was skipped.

        Args:
            rerun: the command that runs this one item again.
            script: shown where it is short; or where it was written to.
        """
        if self.outcome in ("passed", "skipped"):
            reason = f": {self.record()['message']}" if self.message else ""
            return f"{self.outcome} {self.op} {self.check} [{self.case}]{reason}"
        if self.evidence == TOLD_ABOVE:
            return f"{self.finding}: {self.message} {TOLD_ABOVE} [{self.check}]"
        lines = [f"{self.finding or self.outcome}: {self.message}", "", *_place(self)]
        if self.evidence:
            lines += ["", self.evidence]
        if self.fix:
            lines += ["", *_folded("fix", self.fix)]
        if rerun:
            lines += [_labelled("rerun", rerun)]
        if isinstance(script, Path):
            lines += [_labelled("repro", str(script))]
        elif script is not None and script.short:
            lines += [_labelled("repro", "the same without pytest:"), ""]
            lines += textwrap.indent(script.text, _INDENT).splitlines()
        elif script is not None:
            lines += [_labelled("repro", "--customop-repro-dir=DIR writes a script without pytest")]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


_INDENT = " " * 7


def _place(result: CheckResult) -> list[str]:
    lines = [_labelled("op", result.op), _labelled("check", result.check)]
    lines.append(_labelled("case", result.case))
    if result.change:
        lines.append(f"{_INDENT}a variant of the sample: {result.change}")
    lines += [f"{_INDENT}  {argument}" for argument in result.arguments]
    return lines


def _labelled(label: str, text: str) -> str:
    return f"{label:<6} {text}"


def _folded(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent=_labelled(label, ""), subsequent_indent=_INDENT)
