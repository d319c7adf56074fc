"""Run a case on real tensors and on fake tensors of plain sizes, and find where the two disagree."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ...cases.case import Case
from ...cases.deliberate import note_if_deliberate
from ...cases.fake_run import FakeRun, fake_run, shapes_of
from ...cases.resize import tied_integers
from ...core.tracebacks import error_line, reraise_bug, traceback_text
from ...findings import CheckFailed, CheckSkipped
from .backward_calls import Call, backward_calls
from .metadata import OutputComparison, SizeReader, compare_outputs, table, worst_mismatch

SHAPE, RAISES, HARDCODED = "fake-shape-mismatch", "fake-raises", "fake-size-hardcoded"


@dataclass(frozen=True)
class Disagreement:
    """One difference between fake and real.

    Args:
        key: which output and which field; independent of the sizes.
        code, text, evidence, note: as in the finding.
    """

    key: tuple[str, str]
    code: str
    text: str
    evidence: str
    note: str | None = None

    @property
    def finding_code(self) -> str:
        """The code at other sizes than the sample's: a shape that is wrong there is hard-coded."""
        return HARDCODED if self.code == SHAPE else self.code


class RealAndFake:
    """A case run on real tensors, and on fake ones of plain sizes.

    Args:
        case: the case.
        backward: whether its backward runs too.
    """

    def __init__(self, case: Case, backward: bool) -> None:
        self.case, self.backward = case, backward

    @functools.cached_property
    def fake(self) -> FakeRun:
        """The call on fake tensors."""
        return fake_run(shapes_of(self.case))

    @functools.cached_property
    def _calls(self) -> list[Call] | None:
        try:
            return backward_calls(self.case) if self.backward else []
        except Exception as error:  # whatever a backward raises: it does not work at these sizes
            reraise_bug(error)
            return None

    @property
    def works(self) -> bool:
        """Whether the real op and its backward work."""
        return self.case.eager.error is None and self._calls is not None

    def disagreements(self) -> list[Disagreement]:
        """The differences in the op, and in the custom ops that its backward calls."""
        name = self.case.op.name
        if self.fake.error is not None:
            return [raised(name, self.fake.error)]
        outputs = compare_outputs(self.fake.run, self.case.eager, SizeReader(self.fake.mode))
        disagreements = list(mismatches(name, outputs))
        for call in self._calls or ():
            who = f"{call.op}, called by the backward of {name}:"
            try:
                disagreements += mismatches(who, call.compare(f"the backward of {name}"))
            except CheckFailed as failure:
                finding = failure.finding
                disagreements.append(
                    Disagreement((who, ""), RAISES, finding.message, finding.evidence, finding.note)
                )
            except CheckSkipped:
                continue
        return disagreements


def raised(op: str, error: Exception) -> Disagreement:
    """The disagreement of a fake kernel that raises."""
    note = note_if_deliberate(op, error)
    return Disagreement((op, ""), RAISES, error_line(error), traceback_text(error), note)


def mismatches(who: str, outputs: Sequence[OutputComparison]) -> Iterator[Disagreement]:
    """A disagreement for each mismatched field; `who` begins its text."""
    for output in outputs:
        for row in output.wrong:
            code, text = worst_mismatch([OutputComparison(output.name, [row])]) or ("", "")
            yield Disagreement(
                (f"{who} {output.name}", row.field), code, f"{who} {text}", table(outputs)
            )


def worst_new(
    disagreements: Sequence[Disagreement], known: Collection[tuple[str, str]]
) -> Disagreement | None:
    """The worst disagreement whose key is not known from the sample's own sizes."""
    new = [disagreement for disagreement in disagreements if disagreement.key not in known]
    order = {RAISES: 0, SHAPE: 1}
    return min(new, key=lambda disagreement: order.get(disagreement.code, len(order)), default=None)


def explained_by_integers(
    pair: RealAndFake, changed_pair: RealAndFake, known: Collection[tuple[str, str]]
) -> bool:
    """Whether fake and real agree once the int arguments that equal the sizes change with them."""
    tied = tied_integers(pair.case, changed_pair.case)
    if tied is None:
        return False
    tied_pair = RealAndFake(tied, pair.backward)
    return tied_pair.works and worst_new(tied_pair.disagreements(), known) is None


def sizes_of(case: Case) -> str:
    """The shapes of the case's tensors: `pic (3, 64, 64), mask (64, 64)`."""
    return ", ".join(
        f"{name} {tuple(tensor.shape)}" for name, tensor in case.eager.arguments.tensors()
    )
