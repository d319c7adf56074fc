"""Find the root cause of each finding, so that each defect is reported in full once.

Findings of one case belong together if they have the same code, or if one may follow from the other.
The same finding of the same check, with the same message, on another case of the test is a repetition;
on variants of the samples it is one with any message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.wording import counted
from ..run.record import FindingRecord, ResultRecord


def causes(records: Iterable[ResultRecord]) -> dict[int, int]:
    """The position of the root cause, for each record that follows from another or repeats it.

    A record that is not in the result is a root cause, or has no finding.
    """
    found = list(records)
    failed = [(at, one.finding) for at, one in enumerate(found) if one.outcome == "failed"]
    findings = {at: finding for at, finding in failed if finding is not None}
    by_case: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    first: dict[tuple[Any, ...], int] = {}
    result: dict[int, int] = {}
    for at in sorted(findings, key=lambda at: _order(found[at], findings[at])):
        record, finding = found[at], findings[at]
        root = next((one for one in by_case[record.case] if _follows(finding, findings[one])), None)
        if root is None:
            by_case[record.case].append(at)
            root = first.setdefault(_repeated(record, finding), at)
        if root != at:
            result[at] = result.get(root, root)
    return result


def _order(record: ResultRecord, finding: FindingRecord) -> tuple[Any, ...]:
    return *finding.rank, record.check or "", record.nodeid


def _follows(finding: FindingRecord, earlier: FindingRecord) -> bool:
    return finding.code == earlier.code or earlier.code in finding.follows


def _repeated(record: ResultRecord, finding: FindingRecord) -> tuple[Any, ...]:
    """What is equal for findings of a test that repeat each other on several cases."""
    message = None if record.is_variant else record.message
    return record.test, record.op, record.check, finding.code, record.place.aspect, message


def one_line(record: ResultRecord, root: ResultRecord, root_id: str) -> str:
    """The text of a finding that is reported in full elsewhere.

    Args:
        record: the finding that follows from another one or repeats it.
        root: that other one.
        root_id: its node id.
    """
    assert record.finding is not None
    assert root.finding is not None
    same = record.finding.code == root.finding.code
    why = "the same finding is" if same else f"it may follow from {root.finding.code},"
    return f"{record.finding.code}: {record.message}\n{why} reported in full at {root_id}"


def also_line(root: ResultRecord, others: Sequence[ResultRecord]) -> str:
    """The last line of a root cause: `also   compile.static (compile-stride-assert), 2 more cases`.

    Args:
        others: the records that follow from the root or repeat it.
    """
    checks = sorted(_name(one, root) for one in others if one.case == root.case)
    elsewhere = len({one.case for one in others} - {root.case})
    cases = [counted(elsewhere, "more case")] * bool(elsewhere)
    return f"also   {', '.join([*checks, *cases])}"


def _name(record: ResultRecord, root: ResultRecord) -> str:
    assert record.finding is not None
    assert root.finding is not None
    if record.finding.code == root.finding.code:
        return str(record.check)
    return f"{record.check} ({record.finding.code})"
