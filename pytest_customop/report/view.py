"""A report prepared for display: states, the grid, and the distinct defects. All pages are made from it.

It uses only the report's dictionary (`json_file.as_report`), so that a file that was read, or several that
were merged, can be rendered as well. Fields that an older file lacks are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..core.wording import counted
from ..plan.place import ALL_VARIANTS
from ..run.record import BAD

Result = Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """The outcome of a check on a case, for display.

    Args:
        key: its name in files and addresses.
        mark: one character, shown with the colour.
        word: its name in a sentence, after a number.
    """

    key: str
    mark: str
    word: str


# The worst first: a cell of the grid shows the first state of its results.
STATES = {
    state.key: state
    for state in (
        State("failed", "F", "failed"),
        State("error", "E", "errors"),
        State("xpassed", "X", "unexpected passes"),
        State("known", "K", "known failures"),
        State("noted", "N", "notes"),
        State("unchecked", "?", "could not be checked"),
        State("passed", "\N{CHECK MARK}", "passed"),
        State("skipped", "\N{EN DASH}", "skipped"),
    )
}
_SINGULAR = {
    "error": "error",
    "xpassed": "unexpected pass",
    "known": "known failure",
    "noted": "note",
}
NOT_RUN = "not run"  # the check of a result that has none


def state_of(result: Result) -> str:
    """The key of the state that a result is in."""
    outcome = result["outcome"]
    if outcome == "xfailed":
        return "known"
    if outcome == "skipped" and result.get("unjudged"):
        return "unchecked"
    return str(outcome) if outcome in STATES else "error"


def word_for(state: str, count: int) -> str:
    """The word for a number of results in a state: `1 note`, `2 notes`."""
    return _SINGULAR[state] if count == 1 and state in _SINGULAR else STATES[state].word


def check_of(result: Result) -> str:
    """The name of the check; `not run` if none ran."""
    return str(result.get("check") or NOT_RUN)


def family_of(check: str) -> str:
    """The part of a check's name before the dot."""
    return check.partition(".")[0]


def case_of(result: Result) -> str:
    """The place of a case in the matrix of its test: `cpu float32 with gradients, sample wide~empty0`."""
    gradients = {True: "with gradients", False: "without gradients"}.get(
        result.get("requires_grad")  # type: ignore[arg-type]
    )
    layout = result.get("layout")
    parts = [
        result.get("device"),
        result.get("dtype"),
        gradients,
        layout if layout != "contiguous" else None,
    ]
    place = " ".join(str(part) for part in parts if part)
    variant = result.get("variant")
    sample = "~".join(
        str(part)
        for part in (result.get("sample"), variant if variant != ALL_VARIANTS else None)
        if part
    )
    return ", ".join(filter(None, (place, f"sample {sample}" if sample else "")))


def message_of(result: Result) -> str:
    """The message without the code and the reason that precede it in the file."""
    message = str(result.get("message") or "")
    reason, finding = result.get("reason"), result.get("finding")
    if result["outcome"] == "noted":
        return message.removeprefix(f"{reason} ({result.get('why_noted')}): ").removeprefix(
            f"{finding}: "
        )
    return message.removeprefix(f"{reason}: ") if reason else message


def told_of(result: Result) -> str:
    """The text about a result without the name of its op, with which many messages begin."""
    message = message_of(result)
    rest = message.removeprefix(f"{result.get('op')}")
    if rest != message and rest[:1] in (" ", ":"):
        message = rest.removeprefix(":").strip()
    return message or str(result.get("known") or "") or STATES[state_of(result)].word


@dataclass(frozen=True)
class Group:
    """Results that show one thing.

    Args:
        first: the result that is shown in full.
        results: all of them, including the first.
        also: failures that follow from it or repeat it.
    """

    first: Result
    results: Sequence[Result]
    also: Sequence[Result] = ()

    @property
    def code(self) -> str:
        """The finding; for an error or an unexpected pass, the outcome."""
        return str(self.first.get("finding") or self.first["outcome"])

    @property
    def others(self) -> list[Result]:
        """All but the first, and those that follow."""
        return [*self.results[1:], *self.also]

    @property
    def cases(self) -> str:
        """How many cases show it, including those that follow from it: `3 cases`."""
        places = {
            (result["nodeid"].partition("[")[0], result.get("op"), case_of(result))
            for result in (*self.results, *self.also)
        }
        return counted(len(places), "case")


class View:
    """A report, prepared for display.

    Args:
        report: as `json_file.as_report` makes it, or as a file has it.
    """

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.environment: Mapping[str, Any] = report.get("environment") or {}
        self.findings: Mapping[str, Mapping[str, Any]] = report.get("findings") or {}
        self.coverage: Sequence[Mapping[str, Any]] = report.get("coverage") or ()
        self.omitted: list[str] = list(report.get("omitted") or ())
        self.results: Sequence[Result] = report.get("results") or ()
        self.counts = Counter(map(state_of, self.results))

    @property
    def is_bad(self) -> bool:
        """Whether anything failed."""
        return any(self.counts[key] for key in BAD)

    @property
    def verdict(self) -> str:
        """All states with their numbers, the worst first: `2 failed, 40 passed`."""
        counts = [(key, self.counts[key]) for key in STATES if self.counts[key]]
        parts = [f"{count} {word_for(key, count)}" for key, count in counts]
        return ", ".join(parts) or "nothing ran"

    @cached_property
    def ops(self) -> list[str]:
        """The ops, by name."""
        return sorted({str(result.get("op")) for result in self.results})

    @cached_property
    def checks(self) -> list[str]:
        """The checks, by name; `not run` comes last."""
        names = {check_of(result) for result in self.results}
        return sorted(names, key=lambda name: (name == NOT_RUN, name))

    @cached_property
    def by_family(self) -> dict[tuple[str, str], Counter[str]]:
        """The states of each op in each family of checks."""
        return self._cells(lambda result: family_of(check_of(result)))

    @cached_property
    def by_check(self) -> dict[tuple[str, str], Counter[str]]:
        """The states of each op in each check."""
        return self._cells(check_of)

    def _cells(self, column: Callable[[Result], str]) -> dict[tuple[str, str], Counter[str]]:
        cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for result in self.results:
            cells[str(result.get("op")), column(result)][state_of(result)] += 1
        return cells

    @cached_property
    def defects(self) -> list[Group]:
        """The distinct failures, each with those that follow from it.

        Failures come before errors and unexpected passes; those with the most results come first.
        """
        bad = [result for result in self.results if state_of(result) in BAD]
        known = {_identity(result) for result in bad}
        follow: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
        roots = []
        for result in bad:
            cause = result.get("cause")
            if cause and _identity(cause) in known and _identity(cause) != _identity(result):
                follow[_identity(cause)].append(result)
            else:
                roots.append(result)
        groups = _grouped(
            roots,
            lambda result: (
                result["outcome"],
                result.get("finding"),
                result.get("op"),
                message_of(result),
            ),
        )
        defects = [
            Group(
                group[0],
                group,
                [also for result in group for also in follow[_identity(result)]],
            )
            for group in groups
        ]
        return sorted(
            defects,
            key=lambda group: (
                BAD.index(state_of(group.first)),
                -len(group.results) - len(group.also),
            ),
        )

    @cached_property
    def bad_ops(self) -> list[str]:
        """The ops with a failure."""
        return sorted({str(result.get("op")) for result in self.results if state_of(result) in BAD})

    @cached_property
    def known(self) -> list[Group]:
        """The known failures: one for each op, finding and reason."""
        return self._of(
            "known", lambda result: (result.get("op"), result.get("finding"), result.get("known"))
        )

    @cached_property
    def notes(self) -> list[Group]:
        """The notes: one for each op, finding and reason."""
        return self._of(
            "noted",
            lambda result: (result.get("op"), result.get("finding"), result.get("why_noted")),
        )

    @cached_property
    def unchecked(self) -> list[Group]:
        """The results that could not be checked: one for each op, check and reason."""
        return self._of(
            "unchecked", lambda result: (result.get("op"), check_of(result), result.get("message"))
        )

    @cached_property
    def skipped(self) -> list[Group]:
        """The skips: one for each reason."""
        groups = self._of("skipped", lambda result: result.get("reason") or result.get("message"))
        return sorted(groups, key=lambda group: -len(group.results))

    def _of(self, state: str, key: Any) -> list[Group]:
        groups = _grouped((result for result in self.results if state_of(result) == state), key)
        return [Group(group[0], group) for group in groups]

    def seconds_by(self, key: str) -> list[tuple[str, float]]:
        """The seconds of each `op` or `check`, the longest first."""
        seconds: dict[str, float] = defaultdict(float)
        for result in self.results:
            name = check_of(result) if key == "check" else str(result.get(key))
            seconds[name] += float(result.get("duration") or 0)
        return sorted(seconds.items(), key=lambda item: (-item[1], item[0]))


def _identity(result: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(result.get(name) for name in ("nodeid", "op", "check", "variant"))


def _grouped(results: Iterable[Result], key: Any) -> list[list[Result]]:
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.values())
