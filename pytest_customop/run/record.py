"""The typed record of one result: sessions keep it, processes send it, reports print it.

Imports no torch, so that the controller of pytest-xdist can print a report without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..plan.place import GENERATED, Place

HARVEST = "harvest"  # the first part of the node ids of harvested calls

AUDIT = "scan.audit"  # the check of the records of a scan's audit, which calls no op

# `pending`: the item is set up and has not ended. No report contains it.
Outcome = Literal["passed", "failed", "error", "skipped", "noted", "xfailed", "xpassed", "pending"]

# The outcomes that fail a session.
BAD: tuple[Outcome, ...] = ("failed", "error", "xpassed")


@dataclass(frozen=True)
class FindingRecord:
    """The finding of a failed check, with what a report needs of its explanation.

    Args:
        code: its entry in the catalogue, or a code of an author's own check.
        fix: what to change.
        meaning, why, before, after, docs: of its explanation; empty if there is none.
        follows: the codes of findings that may have caused this one.
        rank: sorts the findings of a case. Causes come before their consequences. Among checks that report
            the same code, the most specific one comes first.
    """

    code: str
    fix: str | None = None
    follows: tuple[str, ...] = ()
    rank: tuple[int | str, ...] = ()
    meaning: str = ""
    why: str = ""
    before: str = ""
    after: str = ""
    docs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResultRecord:
    """The result of one item, or of one check that a test has run by hand.

    Args:
        nodeid: of the pytest item.
        op: `namespace::name`.
        check: `family.name`, or `body` for the test's own body; None if nothing ran.
        place: the place of the case in the matrix.
        outcome: one of `Outcome`.
        message: the finding, the error or the reason for a skip in one line.
        finding: of a failed check, or of a note.
        variant_description: what was changed in a variant of a sample.
        skip_code: the kind of a skip, `no-second-size`; of a note, why it is not a failure:
            `beyond-sample`, `refused-on-purpose`, `within-rounding`, `not-asked` or
            `torch-limit`.
        why_noted: of a note, why it is not a failure, in words.
        known: why a failure is expected, from the mark's `known=` or from the baseline file.
        in_baseline: whether only the baseline file expects the failure.
        unjudged: whether a skip leaves unjudged what the author may believe was judged.
        accepted_by_fake: whether the fake kernel accepts a variant that the op rejects.
        without_child: for a variant that did not run because it could crash the process: how it can run.
        by_hand: whether the fixture `customop_check` ran the check.
        repro: the command that runs the item again, with this variant alone.
        evidence: the lines that show the finding.
        arguments: the op's arguments, described, where there is a finding or an error.
        picture: of a mismatch of values, as `picture_of` makes it; None if there is none.
        script: Python that shows a failure without pytest; empty if there is none.
        seed: of the values that are drawn for the case; None if nothing ran.
        file, line: where the marked test begins, `file` relative to pytest's rootdir, `line` from 1.
        text: the whole text of a failure or a note, as the terminal prints it; no report holds it.
        duration: seconds.
        generated: how many generated inputs of the item the op accepts; no report holds it.
    """

    nodeid: str
    op: str
    check: str | None
    place: Place
    outcome: Outcome
    message: str = ""
    finding: FindingRecord | None = None
    variant_description: str = ""
    skip_code: str | None = None
    why_noted: str = ""
    known: str = ""
    in_baseline: bool = False
    unjudged: bool = False
    accepted_by_fake: bool = False
    without_child: str | None = None
    by_hand: bool = False
    repro: str | None = None
    evidence: str = ""
    arguments: tuple[str, ...] = ()
    picture: Mapping[str, Any] | None = None
    script: str = ""
    seed: int | None = None
    file: str | None = None
    line: int | None = None
    text: str = ""
    duration: float = 0.0
    generated: int = 0

    @property
    def test(self) -> str:
        """The node id without the parameters."""
        return self.nodeid.partition("[")[0]

    @property
    def case(self) -> tuple[str, str, Place]:
        """The identity of the case: the test, the op, and the place in its matrix."""
        return self.test, self.op, self.place

    @property
    def is_variant(self) -> bool:
        """Whether the case is a variant of a sample, not a sample itself."""
        return self.place.variant is not None

    @property
    def is_generated(self) -> bool:
        """Whether the case is an input that the item has drawn."""
        variant = self.place.variant
        return variant is not None and variant.partition(".")[0] == GENERATED

    @property
    def is_harvested(self) -> bool:
        """Whether the case is a call that `--customop-harvest` has seen."""
        return self.nodeid.startswith(f"{HARVEST}::")

    @property
    def reason(self) -> str:
        """The message. For a skip it begins with the code, for a note with the reason for the note."""
        if self.outcome == "noted":
            code = self.finding.code if self.finding else ""
            return f"{self.skip_code} ({self.why_noted}): {code}: {self.message}"
        return f"{self.skip_code}: {self.message}" if self.skip_code else self.message


def to_wire(record: ResultRecord) -> dict[str, Any]:
    """The record as dicts, lists, strings and numbers, which JSON and execnet can carry."""
    plain = {**vars(record), "place": {**vars(record.place)}, "arguments": list(record.arguments)}
    if record.finding is not None:
        lists = {name: list(getattr(record.finding, name)) for name in _TUPLES}
        plain["finding"] = {**vars(record.finding), **lists}
    return plain


def from_wire(plain: Mapping[str, Any]) -> ResultRecord:
    """The record that `to_wire` has made plain."""
    place, finding = Place(**plain["place"]), plain["finding"]
    if finding is not None:
        finding = FindingRecord(**{**finding, **{name: tuple(finding[name]) for name in _TUPLES}})
    arguments = tuple(plain["arguments"])
    return ResultRecord(**{**plain, "place": place, "finding": finding, "arguments": arguments})


_TUPLES = ("follows", "rank", "docs")  # of a finding, which JSON makes lists
