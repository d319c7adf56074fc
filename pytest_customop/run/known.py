"""Compare the record of a check with the known failures that the mark declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..declare.known import ANY_VARIANT, Known
from ..plan.known import matches_variant
from .record import ResultRecord


def with_known(record: ResultRecord, known: Sequence[Known], strict: bool) -> ResultRecord:
    """The record with the outcome that the known failures of its case give it.

    A failure with the finding of an entry is expected: `xfailed`. A pass where an entry is strict is
    `xpassed`, which fails the run. Other records stay as they are.

    Args:
        known: the entries that may be about the record's check and case.
        strict: the default for entries without `strict`.
    """
    entries = [entry for entry in known if matches_variant(entry, record.place.variant)]
    if not entries:
        return record
    if record.outcome == "failed":
        return _failed(record, entries)
    stale = [
        entry for entry in entries if entry.variant != ANY_VARIANT and _is_strict(entry, strict)
    ]
    return _stale(record, stale[0]) if record.outcome == "passed" and stale else record


def _failed(record: ResultRecord, entries: Sequence[Known]) -> ResultRecord:
    code = record.finding.code if record.finding else None
    for entry in entries:
        if entry.finding in (None, code):
            return replace(record, outcome="xfailed", known=entry.reason)
    codes = ", ".join(sorted({str(entry.finding) for entry in entries}))
    text = f"{record.text}\nknown  another finding is known here: {codes}"
    return replace(record, text=text)


def _stale(record: ResultRecord, entry: Known) -> ResultRecord:
    message = f"this known failure no longer fails: delete {entry!r} from known="
    text = f"known-failure-passes: {record.op} {record.check}: {message}"
    return replace(record, outcome="xpassed", message=message, text=text)


def stale_for_any_variant(
    records: Sequence[ResultRecord], known: Sequence[Known], strict: bool
) -> list[ResultRecord]:
    """The records with the last one `xpassed` if a strict entry for any variant matches no failure.

    Args:
        records: of all variants of a case.
        known, strict: as in `with_known`.
    """
    updated = list(records)
    for entry in known:
        if entry.variant != ANY_VARIANT or not _is_strict(entry, strict):
            continue
        if not any(
            record.outcome == "xfailed" and record.known == entry.reason for record in updated
        ):
            updated[-1] = _stale(updated[-1], entry)
    return updated


def not_run(known: Sequence[Known], step: str | None) -> Known | None:
    """The entry that keeps a case, or a variant of it, from running; None if none does."""
    return next((entry for entry in known if not entry.run and matches_variant(entry, step)), None)


def _is_strict(entry: Known, default: bool) -> bool:
    return default if entry.strict is None else entry.strict
