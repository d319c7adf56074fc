"""Copy what a report needs from a finding's explanation into a record."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter

from ..checks import Check, catalogue, families, fix_for, report_order
from ..findings import Explanation, Finding
from .record import FindingRecord


def finding_record(finding: Finding, check: Check | None) -> FindingRecord:
    """The record of a finding.

    Codes of the catalogue come first, causes before their consequences. Codes that only an author's
    own check explains come after them, in the same order.

    Args:
        check: the check that reports the finding; None for the test's own body.

    Raises:
        ValueError: for a code without an explanation, if the finding has no fix of its own.
    """
    explanations = check.findings if check else {}
    explanation = explanations.get(finding.code) or catalogue().get(finding.code)
    follows = _codes(explanation.follows) if explanation else ()
    order = _causes_first()
    position = order.get(finding.code, len(order) + _depth(finding.code, explanations, frozenset()))
    name = check.name if check else ""
    rank = (position, *report_order(name, finding.code))
    record = FindingRecord(finding.code, fix_for(finding, check), follows, rank)
    if explanation is None:
        return record
    return replace(
        record,
        meaning=explanation.meaning,
        why=explanation.why,
        before=explanation.before,
        after=explanation.after,
        docs=explanation.docs,
    )


def _codes(names: tuple[str, ...]) -> tuple[str, ...]:
    """The codes, with each `family.*` replaced by the codes of the family."""
    by_family = {f"{family.name}.*": tuple(family.findings) for family in families()}
    return tuple(code for name in names for code in by_family.get(name, (name,)))


def _depth(code: str, explanations: Mapping[str, Explanation], seen: frozenset[str]) -> int:
    """The longest chain of causes outside the catalogue that precedes a code."""
    if code not in explanations or code in seen:
        return 0
    causes = [name for name in explanations[code].follows if name not in catalogue()]
    return max((1 + _depth(cause, explanations, seen | {code}) for cause in causes), default=0)


@functools.cache
def _causes_first() -> dict[str, int]:
    """The position of each code in an order in which causes precede their consequences."""
    order = TopologicalSorter({code: entry.follows for code, entry in catalogue().items()})
    return {code: position for position, code in enumerate(order.static_order())}
