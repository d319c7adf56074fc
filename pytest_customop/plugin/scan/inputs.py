"""Find samples for the ops of a scan: those of the examples, or what a search finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...declare.ops import Op
from ...scan.examples import read_examples
from ...scan.inputs.search import search
from ...scan.marked import Inputs
from ...scan.notes import FoundInputs, ScanNotes
from ...settings import Settings


def find_inputs(
    ops: Sequence[Op], settings: Settings, notes: ScanNotes, tell: Callable[[str], None]
) -> list[Inputs]:
    """The samples of each op for which there are some.

    Args:
        ops: the ops with a kernel for the CPU.
        notes: gets the result of the search for each op.
        tell: called with one line per op.

    Raises:
        ScanError: for a file of examples that cannot be used.
    """
    path, known = settings.scan_examples, [op.name for op in ops]
    examples = read_examples(path, known) if path else {}
    inputs = []
    for number, op in enumerate(ops, 1):
        start = f"scan: [{number}/{len(ops)}] {op.name}: "
        if op.name in examples:
            samples = examples[op.name]
            notes.found.append(FoundInputs(op.name, samples=len(samples)))
            inputs.append(Inputs(op, samples, "an example"))
            tell(f"{start}{len(samples)} examples")
        elif settings.scan_seconds:
            result = search(op, settings.scan_seconds, settings.seed)
            samples = tuple(candidate.sample(op) for candidate in result.kept)
            notes.found.append(
                FoundInputs(
                    op=op.name,
                    samples=len(samples),
                    tried=result.tried,
                    accepted=result.accepted,
                    crashes=result.crashes,
                    hangs=result.hangs,
                    rejections=tuple(result.rejections),
                    example="" if samples else _example(op),
                    seconds=result.seconds,
                )
            )
            if samples:
                origin = f"found by a scan: {result.accepted} of {result.tried} were accepted"
                inputs.append(Inputs(op, samples, origin))
            tell(start + _told(notes.found[-1]))
    return inputs


def _told(found_inputs: FoundInputs) -> str:
    return ", ".join(
        [f"{found_inputs.tried} tried", f"{found_inputs.accepted} accepted", *found_inputs.ended]
    )


def _example(op: Op) -> str:
    """The line that an author adds to give an example of the arguments."""
    names = [argument.name for argument in op.arguments if not argument.has_default_value()]
    comma = "," * (len(names) == 1)
    return f'EXAMPLES["{op.name}"] = [({", ".join(names)}{comma})]  # --customop-scan-examples'
