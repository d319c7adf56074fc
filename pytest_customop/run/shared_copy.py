"""Run a check on the variants of an item in one copy of the process, instead of one copy for each.

A copy costs more than most calls of an op. What the check reports in a shared copy decides nothing: a
variant that does not pass there, or at which the copy ends, is left to be checked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..cases.calls_in_copy import run_calls_in_copy
from ..cases.case import Case
from ..checks import Check
from ..core.forked import ForkedError, Send, share_copy
from ..declare.variant import LARGE
from .engine import run_check
from .results import CheckResult

_FEWEST = 2  # cases for which a copy is shared
_MOST_COPIES = 4  # that end before all cases are checked
_SECONDS = 60.0  # for all cases of a copy


def results_in_copy(check: Check, cases: Sequence[Case]) -> dict[Case, CheckResult]:
    """The results of the cases that pass, or have nothing to check, in a shared copy.

    Args:
        check: one that makes its calls in copies (`Check.in_copies`); for others there is no result.
        cases: those whose plain call has not been made, or raised, have no result.
    """
    if check.in_copies is None:
        return {}
    left = [case for case in cases if _is_fit(case) and check.in_copies(case)]
    results: dict[Case, CheckResult] = {}
    for _ in range(_MOST_COPIES):
        if len(left) < _FEWEST:
            break
        answers = _answers(check, left)
        results |= {
            case: answer for case, answer in zip(left, answers, strict=False) if answer is not None
        }
        left = left[len(answers) + 1 :]  # the copy ended at the one between, if at all
    return results


def _is_fit(case: Case) -> bool:
    return case.has_run and case.eager.error is None and case.kind not in LARGE


def _answers(check: Check, cases: Sequence[Case]) -> list[CheckResult | None]:
    """The result of each case until the copy ends; None for one that is to be checked by itself."""

    def work(send: Send) -> None:
        share_copy()
        for case in cases:
            result = run_check(check, case, streams=False)
            is_final = result.outcome == "passed" or _has_nothing_to_check(result)
            send(result if is_final else None)

    try:
        forked = run_calls_in_copy(cases[0], work, _SECONDS)
    except ForkedError:
        return []
    return [] if forked is None else forked.messages


def _has_nothing_to_check(result: CheckResult) -> bool:
    return result.outcome == "skipped" and result.skip_code == "nothing-to-check"
