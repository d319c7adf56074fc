"""Run a check that learns from a small part of a case, in a copy of the process if that could crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ....cases.calls_in_copy import run_calls_in_copy
from ....cases.case import Case
from ....cases.crash_risk import may_crash
from ....core.forked import Send
from ....findings import CheckFailed, CheckSkipped, fail, skip
from ...values.memory.calls import Caller, skip_if_incomparable
from .groups import DimGroup, grown_groups

Way = TypeVar("Way")

# Findings that also make many entries give something else than few.
CAUSES = (
    *("reference-mismatch", "precision-mismatch", "gradient-mismatch", "integer-overflow"),
    *("stale-result", "outputs-not-repeatable", "undeclared-mutation"),
    *("uninitialized-output", "uninitialized-gradient"),
    "result-depends-on-thread-count",
)


class Broken(NamedTuple):
    """A relation that holds for few entries and not for many.

    Args:
        message: what is wrong.
        repro: the lines of a script that shows it.
        note: why it is not a failure; None for one that is.
        picture: of the values that differ, as `cases.picture.picture_of` makes it.
    """

    message: str
    repro: str
    note: str | None
    picture: Mapping[str, Any] | None

    def failure(self, code: str) -> CheckFailed:
        """The finding with a code."""
        return fail(code, self.message, repro=self.repro, note=self.note, picture=self.picture)


class Learned(NamedTuple):
    """The outcome for a case.

    Args:
        learned: whether the op has the relation for few entries of a group.
        broken: how it lacks the relation for many; None if it has it.
    """

    learned: bool
    broken: Broken | None = None


# (case, group) -> the outcome.
Look = Callable[[Case, DimGroup], Learned]


def look_at_groups(case: Case, look: Look) -> Broken | None:
    """The first group of dims for which a relation is broken; None without one.

    Args:
        look: looks at one group.

    Raises:
        CheckSkipped: where there is nothing to learn, or nothing larger than what can be learned from.
    """
    skip_if_incomparable(case)
    groups = grown_groups(case)
    if not groups:
        reason = "no dim is larger than the size to learn from"
        raise skip("nothing-to-check", reason, unjudged=False)

    def look_at_all() -> Learned:
        learned = False
        for group in groups:
            outcome = look(case, group)
            learned |= outcome.learned
            if outcome.broken is not None:
                return outcome
        return Learned(learned)

    verdict = _in_copy(case, look_at_all) if may_crash(case) else look_at_all()
    if not verdict.learned:
        raise _nothing_learned()
    return verdict.broken


def in_both(
    first: Mapping[str, frozenset[Way]], second: Mapping[str, frozenset[Way]]
) -> dict[str, frozenset[Way]]:
    """The ways that each result has in both of two draws; results without one are left out."""
    common = {name: first[name] & second[name] for name in first.keys() & second.keys()}
    return {name: ways for name, ways in common.items() if ways}


def _in_copy(case: Case, look: Callable[[], Learned]) -> Learned:
    """Look in a copy of the process: positions may lie outside of the few entries that are taken."""

    def work(send: Send) -> None:
        Caller(case)(case.inputs())
        send(look())

    forked = run_calls_in_copy(case, work)
    if forked is None or not forked.messages:
        return Learned(learned=False)
    verdict: Learned = forked.messages[0]
    return verdict


def _nothing_learned() -> CheckSkipped:
    reason = "no dim has entries that are computed alike, each by itself or in any order"
    return skip("nothing-to-check", reason, unjudged=False)
