"""Look up in the catalogue what a report needs of a finding, so that the report need not."""

from __future__ import annotations

import functools
from graphlib import TopologicalSorter

from ..checks import Check, catalogue, fix_for, report_order
from ..findings import Finding
from .record import FindingRecord


def finding_record(name: str, finding: Finding, check: Check | None = None) -> FindingRecord:
    """The record of a finding.

    The codes of an author's own checks come after those of the catalogue.

    Args:
        name: of the check that reports it, or `body`.
        check: the one that explains the finding, where the catalogue does not.

    Raises:
        ValueError: for a code that nothing explains and that brings no fix of its own.
    """
    own = check.findings if check is not None else {}
    explanation = catalogue().get(finding.code) or own.get(finding.code)
    follows = explanation.follows if explanation else ()
    order = _causes_first()
    rank = (order.get(finding.code, len(order)), *report_order(name, finding.code))
    return FindingRecord(finding.code, fix_for(finding, check), follows, rank)


@functools.cache
def _causes_first() -> dict[str, int]:
    """The position of each code in an order in which causes precede their consequences."""
    order = TopologicalSorter({code: entry.follows for code, entry in catalogue().items()})
    return {code: position for position, code in enumerate(order.static_order())}
