"""Run the check of a planned item, on its case or on each of its variants, and end the item accordingly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ..plan.place import GENERATED
from ..report.item_text import failure_text, skip_reason
from ..run.known import not_run, stale_for_any_variant
from ..run.record import ResultRecord
from .child.items import is_isolated
from .child.protocol import is_child
from .child.pytest_timeout import run_in_time
from .session.records import record_of, strict_by_default
from .session.state import FINISHED, RECORDS, Session

if TYPE_CHECKING:
    from ..cases.case import Case
    from ..checks import Check
    from ..declare.known import Known
    from ..plan.items import PlannedItem


def run_item(item: pytest.Item, planned: PlannedItem, session: Session) -> None:
    """Run the check, and keep the records in the item's stash.

    Variants that an earlier child process has run do not run again.

    Raises:
        pytest.fail.Exception: if there is a finding, or if the check broke.
        pytest.xfail.Exception: if every finding is known.
        pytest.skip.Exception: if there are notes, or if nothing was checked.
    """
    assert planned.check is not None
    if planned.fuzz is not None:
        generated = item.stash[RECORDS] = _generated(item, planned, session)
        end_item(generated)
        return
    from ..core import rng

    with rng.preserved():
        _run_cases(item, planned, planned.check, session)
    if is_isolated(item) and not is_child(item.config):
        from .child.controller import isolate

        isolate(item.config, session)  # the device is lost: the next items on it run in a child
    records = item.stash[RECORDS]
    if planned.variants and planned.known:
        strict = strict_by_default(item.config)
        records[:] = stale_for_any_variant(records, planned.known, strict)
    end_item(records)


def _run_cases(item: pytest.Item, planned: PlannedItem, check: Check, session: Session) -> None:
    """Run a check on the cases of an item; the caller restores the random streams."""
    from ..run.shared_copy import results_in_copy

    records = item.stash[RECORDS] = [*item.stash.get(FINISHED, [])]
    done = {record.place.variant for record in records} if planned.variants else set()
    cases = [case for case in planned.checked_cases if case.variant not in done]
    in_copy = results_in_copy(check, cases) if planned.variants else {}
    for case in cases:
        entry = not_run(planned.known, case.variant)
        if entry is None:
            result = in_copy.get(case) or run_in_time(item, check, case, session)
            record = record_of(item, result)
        else:
            record = _not_run(item, planned, case, entry)
        records.append(record)
        if planned.variants:
            session.on_record(record)
            case.release_if_large()


def end_item(records: Sequence[ResultRecord]) -> None:
    """End the item according to its records: failures come first, then known failures, then notes."""
    text = failure_text(records)
    if text is not None:
        pytest.fail(text, pytrace=False)
    expected = dict.fromkeys(record.known for record in records if record.outcome == "xfailed")
    if expected:
        pytest.xfail("; ".join(expected))
    reason = skip_reason(records)
    if reason is not None:
        pytest.skip(reason)


def _generated(item: pytest.Item, planned: PlannedItem, session: Session) -> list[ResultRecord]:
    """The records of an item that generates its inputs."""
    from .generated import run_generated

    entry = not_run(planned.known, GENERATED)
    if entry is None or planned.case is None:
        return run_generated(item, planned, session)
    record = _not_run(item, planned, planned.case, entry)
    return [replace(record, place=planned.place)]


def _not_run(item: pytest.Item, planned: PlannedItem, case: Case, entry: Known) -> ResultRecord:
    """The record of a case that a known failure keeps from running."""
    from ..plan.items import place_of

    return ResultRecord(
        nodeid=item.nodeid,
        op=planned.op,
        check=planned.check_name,
        place=place_of(case),
        outcome="xfailed",
        message="not run",
        variant_description=case.variant_description,
        known=entry.reason,
    )
