"""The results of a scan, for the summary, as plain data. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.wording import counted


@dataclass(frozen=True)
class FoundInputs:
    """The result of the search for inputs of one op.

    Args:
        op: its name.
        samples: how many were kept.
        tried, accepted: how many argument lists were tried, and how many of them the op accepted.
        crashes, hangs: how many of them ended the process, and how many calls did not return.
        rejections: the last messages of the op; empty if inputs were found.
        example: the line that an author adds to give an example.
        seconds: the time that the search took.
    """

    op: str
    samples: int = 0
    tried: int = 0
    accepted: int = 0
    crashes: int = 0
    hangs: int = 0
    rejections: tuple[str, ...] = ()
    example: str = ""
    seconds: float = 0.0

    @property
    def ended(self) -> list[str]:
        """How many argument lists crashed or hung the process; counts of 0 are left out."""
        counts = ((self.crashes, "crashed"), (self.hangs, "hung"))
        return [f"{count} {what}" for count, what in counts if count]


@dataclass
class ScanNotes:
    """The counts of a scan.

    Args:
        namespaces: the namespaces that were scanned.
        audited: how many ops were audited.
        off_cpu: the ops without a kernel for the CPU.
        found: the results of the search for inputs.
        written: what became of the file of marked tests.
    """

    namespaces: tuple[str, ...] = ()
    audited: int = 0
    off_cpu: tuple[str, ...] = ()
    found: list[FoundInputs] = field(default_factory=list)
    written: str = ""

    def lines(self) -> list[str]:
        """The lines of the summary."""
        lines = [f"scan: {counted(self.audited, 'op')} of {', '.join(self.namespaces)} audited"]
        if self.off_cpu:
            lines.append(f"  {counted(len(self.off_cpu), 'op')} without a kernel for the CPU")
        if self.found:
            having = [inputs for inputs in self.found if inputs.samples]
            seconds = sum(inputs.seconds for inputs in self.found)
            lines.append(
                f"  inputs found for {len(having)} of {counted(len(self.found), 'op')}, "
                f"in {seconds:.0f} seconds"
            )
        for inputs in self.found:
            if not inputs.samples:
                lines += _without_inputs(inputs)
        if self.written:
            lines.append(self.written)
        return lines


def _without_inputs(inputs: FoundInputs) -> list[str]:
    tried = ", ".join([f"{inputs.tried} tried", *inputs.ended])
    lines = [f"  {inputs.op}: no inputs found ({tried})"]
    lines += [f"    rejection: {text}" for text in inputs.rejections]
    return [*lines, *([f"    give an example: {inputs.example}"] if inputs.example else [])]
