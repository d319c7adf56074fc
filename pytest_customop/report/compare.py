"""Compare two reports: which failures are new, which are gone, and which cases are in only one of them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.tables import aligned
from ..core.wording import counted, listed_briefly
from .environments import differences
from .identity import Result, case_name, place_key, result_key

_FAILED = ("failed", "error")
_JUDGED = ("passed", "noted", "xpassed")
_ROWS = 40  # the most rows of a section


@dataclass(frozen=True)
class Change:
    """One case in two reports.

    Args:
        before, after: its results; None where a report has none.
    """

    before: Result | None
    after: Result | None

    @property
    def kind(self) -> str:
        """A key of `_HEADINGS`; `same` if there is nothing to report."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        before, after = self.before["outcome"], self.after["outcome"]
        if after in _FAILED:
            if before not in _FAILED:
                return "broken"
            return "same" if _code(self.before) == _code(self.after) else "other"
        if before in (*_FAILED, "xfailed") and after in _JUDGED:
            return "mended"
        if after == "xfailed" and before != "xfailed":
            return "known"
        return "unchecked" if after == "skipped" and before != "skipped" else "same"

    @property
    def result(self) -> Result:
        """The result to show: the earlier one of a failure that is fixed or a case that is gone."""
        chosen = self.before if self.kind in ("mended", "gone") else self.after
        assert chosen is not None
        return chosen


# In the order in which they are printed.
_HEADINGS = {
    "broken": "Broken: fails now, and did not fail before",
    "other": "Fails with another finding",
    "mended": "Fixed",
    "known": "Fails, and is a known failure now",
    "unchecked": "No longer checked",
    "new": "New",
    "gone": "Gone",
}


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Every case of two reports, matched.

    A case is matched by its test, op, check and place; if the test was renamed, without the test.
    """
    before, after = deque(old["results"]), deque(new["results"])
    changes: list[Change] = []
    for key in (result_key, place_key):
        matched, before, after = _match(before, after, key)
        changes += matched
    return [
        *changes,
        *(Change(result, None) for result in before),
        *(Change(None, result) for result in after),
    ]


def _match(
    before: Iterable[Result], after: Iterable[Result], key: Callable[[Result], Hashable]
) -> tuple[list[Change], deque[Result], deque[Result]]:
    """The pairs with equal keys, and the unmatched results of both sides."""
    waiting: dict[Hashable, deque[Result]] = defaultdict(deque)
    for result in before:
        waiting[key(result)].append(result)
    pairs, rest = [], deque[Result]()
    for result in after:
        same = waiting.get(key(result))
        if same:
            pairs.append(Change(same.popleft(), result))
        else:
            rest.append(result)
    return pairs, deque(result for left in waiting.values() for result in left), rest


def is_broken(changes: Iterable[Change]) -> bool:
    """Whether a case fails that did not fail before."""
    return any(change.kind == "broken" for change in changes)


def comparison_lines(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    names: tuple[str, str],
    changes: Sequence[Change],
) -> list[str]:
    """The comparison as text.

    Args:
        names: of the two reports.
        changes: from `compare`.
    """
    by_kind: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_kind[change.kind].append(change)
    lines = [
        f"{name}: {counted(len(report['results']), 'result')}, {_failures(report)}"
        for name, report in zip(names, (old, new), strict=True)
    ]
    reports = list(zip(names, (old["environment"], new["environment"]), strict=True))
    lines += differences(reports)
    for kind, heading in _HEADINGS.items():
        of_kind = by_kind[kind]
        if of_kind:
            lines += ["", f"{heading} ({counted(len(of_kind), 'result')}):", *_rows(of_kind, kind)]
    same = by_kind["same"]
    if len(same) == len(changes):
        return [*lines, "", "No result changed."]
    still = sum(change.result["outcome"] in _FAILED for change in same)
    fails = f", of which {still} still fail{'s' * (still == 1)}" if still else ""
    return [*lines, "", f"Unchanged: {counted(len(same), 'result')}{fails}."]


def _failures(report: Mapping[str, Any]) -> str:
    failed = sum(result["outcome"] in _FAILED for result in report["results"])
    return f"{failed} failed" if failed else "none failed"


def _code(result: Result) -> str:
    """The finding of a result, or its outcome if it has none."""
    return str(result["finding"] or result["outcome"])


def _rows(changes: Sequence[Change], kind: str) -> list[str]:
    """One row per op, check and finding; for results without a finding, one per op and outcome."""
    groups: dict[tuple[str, str, str], list[Change]] = defaultdict(list)
    for change in changes:
        groups[_group(change, kind)].append(change)
    listed = sorted(groups.items(), key=lambda item: (_is_quiet(item[1][0]), item[0]))
    cells = [
        [f"  {op}", check, code, _where(group, kind)] for (op, check, code), group in listed[:_ROWS]
    ]
    lines: list[str] = []
    for row, (_, group) in zip(aligned(cells), listed, strict=False):
        lines.append(row)
        repro = group[0].result["repro"]
        if kind in ("broken", "other") and repro:
            lines.append(f"    {repro}")
    more = len(listed) - _ROWS
    return [*lines, f"  and {counted(more, 'more row')}"] if more > 0 else lines


def _is_quiet(change: Change) -> bool:
    """Whether a result is no failure, so that it comes after the failures."""
    return change.result["outcome"] not in (*_FAILED, "xfailed")


def _group(change: Change, kind: str) -> tuple[str, str, str]:
    result = change.result
    check = result["check"] or "not run"
    if kind == "unchecked":
        return result["op"], check, result["reason"] or result["message"] or "skipped"
    if kind in ("new", "gone") and _is_quiet(change):
        return result["op"], "", result["outcome"]
    return result["op"], check, _code(result)


def _where(group: Sequence[Change], kind: str) -> str:
    """How many cases, and the names of the first ones."""
    if kind in ("new", "gone") and _is_quiet(group[0]):
        checks = {change.result["check"] for change in group} - {None}
        return f"{counted(len(group), 'result')} of {counted(len(checks), 'check')}"
    names = list(dict.fromkeys(case_name(change.result) for change in group))
    text = f"{counted(len(names), 'case')}: {listed_briefly(names)}"
    return "; ".join([text, *_was(group, kind)])


def _was(group: Sequence[Change], kind: str) -> list[str]:
    """The outcomes of the cases in the other report, if they are not the expected ones."""
    if kind == "broken":
        others = Counter(
            change.before["outcome"]
            for change in group
            if change.before and change.before["outcome"] != "passed"
        )
        return [f"{counted(count, 'case')} {outcome} before" for outcome, count in others.items()]
    if kind == "other":
        codes = dict.fromkeys(_code(change.before) for change in group if change.before)
        return [f"before: {', '.join(codes)}"]
    if kind == "mended":
        others = Counter(
            change.after["outcome"]
            for change in group
            if change.after and change.after["outcome"] != "passed"
        )
        return [f"{counted(count, 'case')} {outcome} now" for outcome, count in others.items()]
    return []
