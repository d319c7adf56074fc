"""Items of generated inputs: `--customop-fuzz`."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..plan.place import GENERATED
from ..run.record import ResultRecord
from ..run.results import CheckResult
from .child.pytest_timeout import run_in_time
from .read_options import where_given
from .session.records import record_of
from .session.state import Session

if TYPE_CHECKING:
    from ..cases.case import Case
    from ..fuzz.search import Found
    from ..plan.items import PlannedItem

_FOLDER = "customop-fuzz"  # in pytest's cache


def validate_hypothesis(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` if Hypothesis is not installed."""
    if importlib.util.find_spec("hypothesis") is None:
        raise pytest.UsageError(
            f"{where_given(config, 'fuzz')}: Hypothesis draws the inputs, and is not installed here: "
            "pip install 'pytest-customop[fuzz]'"
        )


def run_generated(item: pytest.Item, planned: PlannedItem, session: Session) -> list[ResultRecord]:
    """The records of an item that generates inputs: one per defect and note, or else a single one.

    Inputs that failed are kept in pytest's cache, and are tried first the next time.
    """
    from ..fuzz.search import search

    plan, check = planned.fuzz, planned.check
    assert plan is not None
    assert check is not None

    def run(case: Case) -> CheckResult:
        assert check is not None
        return run_in_time(item, check, case, session)

    start = time.perf_counter()
    search_result = search(plan, run, _examples(item.config), session.on_input)
    results = [*search_result.failures, *search_result.notes] or [
        _without_finding(planned, search_result)
    ]
    records = [_numbered(record_of(item, result), at) for at, result in enumerate(results)]
    seconds = time.perf_counter() - start
    return [replace(records[0], generated=search_result.accepted, duration=seconds), *records[1:]]


def _numbered(record: ResultRecord, at: int) -> ResultRecord:
    """The record with a name of its own: `fuzz`, `fuzz.2`, ..."""
    name = f"{GENERATED}.{at + 1}" if at else GENERATED
    return replace(record, place=replace(record.place, variant=name))


def _without_finding(planned: PlannedItem, search_result: Found) -> CheckResult:
    """The result of an item that finds nothing: passed, or why no input was judged."""
    assert planned.case is not None
    passed = CheckResult(
        op=planned.op,
        check=planned.check_name,
        case=planned.id,
        outcome="passed",
        place=planned.place,
        variant_description="generated inputs",
    )
    if not search_result.accepted:
        message = f"the op rejects every generated input, {search_result.rejected} of them"
        return replace(passed, outcome="skipped", skip_code="nothing-generated", message=message)
    if sum(count for count, _ in search_result.skips.values()) < search_result.accepted:
        return passed
    _, often = max(search_result.skips.values(), key=lambda entry: entry[0])
    return replace(passed, outcome="skipped", skip_code=often.skip_code, message=often.message)


def _examples(config: pytest.Config) -> Path | None:
    """The folder of Hypothesis' examples; None in a session without a cache."""
    cache: Any = getattr(config, "cache", None)
    return None if cache is None else Path(cache.mkdir(_FOLDER))
