"""Compare the record of a check with the baseline."""

from __future__ import annotations

from dataclasses import replace

from ..run.record import ResultRecord
from .entry import Key, cell_of_record, step_of_record
from .file import Baseline


def with_baseline(
    record: ResultRecord, baseline: Baseline, name: str, *, update: bool
) -> ResultRecord:
    """The record with the outcome that the baseline gives it.

    A failure that is recorded is expected: `xfailed`. Other records stay as they are.

    Args:
        name: the name of the file.
        update: whether the session records failures, so that no finding fails.
    """
    if record.outcome != "failed" or record.finding is None or not record.check:
        return record
    key = Key(record.op, record.check, record.finding.code)
    cell, step = cell_of_record(record), step_of_record(record)
    entry = baseline.find(key, cell, step)
    if entry is not None or update:
        comment = " ".join(entry.comment.split()) if entry is not None else ""
        return replace(
            record, outcome="xfailed", in_baseline=True, known=comment or f"recorded in {name}"
        )
    others = baseline.findings(record.op, record.check, cell, step)
    if not others:
        return record
    text = f"{record.text}\nknown  {name} has another finding here: {', '.join(others)}"
    return replace(record, text=text)
