"""The report as Markdown: for a pull request, or the summary of a CI job.

Every text that a user controls is inert: it is written as code, and its characters of Markdown and HTML are
written as entities, which are text wherever they stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.wording import counted, first_line, without_controls
from ..run.record import BAD
from .coverage import NamespaceCoverage, all_lines
from .view import STATES, Group, View, case_of, check_of, family_of, message_of

COMMENT = 60_000  # bytes: GitHub accepts a comment of up to 65,536 characters,
SUMMARY = 900_000  # and a summary of a job's step of up to 1 MiB
_ROWS = 50  # of a table
_LEAST = 1000  # bytes that are reserved for the lines that say that there is more
_LINES = 60  # of evidence, and of a script

_ICONS = {
    "failed": "\N{CROSS MARK}",
    "error": "\N{COLLISION SYMBOL}",
    "xpassed": "\N{BLACK QUESTION MARK ORNAMENT}",
    "known": "\N{LARGE ORANGE DIAMOND}",
    "noted": "\N{MEMO}",
    "unchecked": "\N{WHITE QUESTION MARK ORNAMENT}",
    "passed": "\N{WHITE HEAVY CHECK MARK}",
    "skipped": "\N{EN DASH}",
}
_MARKUP = re.compile(r"""[&<>"'\\`*_{}\[\]|~#!@$^]|:(?=\S)|(?<=www)\.""")


def render(report: Mapping[str, Any], limit: int = COMMENT) -> str:
    """The report as Markdown.

    Args:
        report: as `json_file.as_report` makes it, or as a JSON report has it.
        limit: the bytes that it may have: `COMMENT` or `SUMMARY`.
    """
    view = View(report)
    parts = [_title(view)]
    left = limit - _size(parts) - _LEAST
    # Each section may take at most this share of the room that is left.
    for share, section in (
        (0.4, ["\n\n".join(_grid(view))]),
        (0.7, _defects(view)),
        (1.0, [*_known(view), *_notes(view), *_unchecked(view), _environment(view)]),
    ):
        fitting = _fitting([part for part in section if part], int(share * left))
        parts += fitting
        left -= _size(fitting)
    return "\n\n".join(parts) + "\n"


def _fitting(parts: Sequence[str], room: int) -> list[str]:
    """The first parts for which there is room, and how many more there are."""
    shown: list[str] = []
    for number, part in enumerate(parts):
        room -= _size([part])
        if room < 0:
            more = counted(len(parts) - number, "more part")
            return [*shown, f"{more} of this report: the page and the JSON report have everything."]
        shown.append(part)
    return shown


def _defects(view: View) -> list[str]:
    parts = [_defect(group, view) for group in view.defects]
    return ["### Failures", *parts] if parts else []


def _size(parts: Iterable[str]) -> int:
    return sum(len(part.encode()) + 2 for part in parts)


def text(value: object) -> str:
    """Text on one line without any meaning in Markdown or HTML."""
    line = without_controls(" ".join(str(value).split()))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", line)


def code(value: object) -> str:
    """A name or a message as code, on one line."""
    return f"<code>{text(value)}</code>"


def block(lines: str, language: str = "") -> str:
    """Lines as a block of code that no line can end."""
    code_lines = lines.rstrip().splitlines()
    cut = code_lines[:_LINES]
    if len(code_lines) > _LINES:
        cut.append(f"... {counted(len(code_lines) - _LINES, 'more line')}")
    content = "\n".join(without_controls(line) for line in cut)
    longest = max(map(len, re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _title(view: View) -> str:
    icon = _ICONS["failed" if view.is_bad else "passed"] + " " if view.results else ""
    return f"## {icon}Operator conformance: {view.verdict}"


def _grid(view: View) -> list[str]:
    """One row per op, one column per family (or check, if there are few), the worst state in each cell."""
    if not view.results:
        return []
    by_check = len(view.checks) <= 8
    cells = view.by_check if by_check else view.by_family
    columns = view.checks if by_check else list(dict.fromkeys(map(family_of, view.checks)))
    lines = [_row(["op", *map(text, columns)]), _row(["---"] * (len(columns) + 1))]
    ops = sorted(view.ops, key=lambda op: not any(_is_bad(cells.get((op, c))) for c in columns))
    for op in ops[:_ROWS]:
        lines.append(_row([code(op), *(_cell(cells.get((op, column))) for column in columns)]))
    parts = ["\n".join(lines)]
    if len(ops) > _ROWS:
        parts.append(f"and {counted(len(ops) - _ROWS, 'more op')}")
    legend = [f"{_ICONS[key]} {STATES[key].word}" for key in STATES if view.counts[key]]
    return [*parts, f"<sub>{', '.join(legend)}; the worst of each, of how many results</sub>"]


def _is_bad(counts: Counter[str] | None) -> bool:
    return any(counts[key] for key in BAD) if counts else False


def _cell(counts: Counter[str] | None) -> str:
    if not counts:
        return ""
    worst = next(key for key in STATES if counts[key])
    total = sum(counts.values())
    of = f"/{total}" if counts[worst] != total and worst != "passed" else ""
    return f"{_ICONS[worst]} {counts[worst]}{of}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _details(summary: str, parts: Iterable[str]) -> str:
    body = "\n\n".join(part for part in parts if part)
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _defect(group: Group, view: View) -> str:
    first = group.first
    explained = view.findings.get(group.code) or {}
    changed = f" ({text(first['changed'])})" if first.get("changed") else ""
    arguments = "".join(f"<br>\n{code(argument)}" for argument in first.get("arguments") or ())
    parts = [
        text(explained.get("meaning") or ""),
        f"{code(message_of(first))}" if message_of(first) else "",
        f"{code(first.get('op'))} {code(check_of(first))}, {text(case_of(first))}{changed}{arguments}",
        block(str(first["evidence"])) if first.get("evidence") else "",
        f"**What to change.** {text(first['fix'])}" if first.get("fix") else "",
        _also(group),
        f"Run it again:\n\n{block(str(first['repro']), 'sh')}" if first.get("repro") else "",
    ]
    if first.get("script"):
        script = block(str(first["script"]), "python")
        parts.append(_details("A script that shows it without pytest", [script]))
    links = [text(link) for link in explained.get("docs") or ()]
    if links:
        parts.append(f"To read: {', '.join(_link(link) for link in explained['docs'])}")
    message = text(first_line(message_of(first)))
    summary = f"<b>{text(group.code)}</b> {code(first.get('op'))} {message} ({group.cases})"
    return _details(summary, parts)


def _link(address: str) -> str:
    safe = re.fullmatch(r"https?://[\w./#?=&%~+-]+", address)
    return f"<{address}>" if safe else code(address)


def _also(group: Group) -> str:
    others: Counter[tuple[str, str]] = Counter(
        (check_of(result), str(result.get("finding") or result["outcome"])) for result in group.also
    )
    others.update((check_of(result), group.code) for result in group.results[1:])
    if not others:
        return ""
    named = [
        f"{code(check)} {text(finding)}" + (f" ({count})" if count > 1 else "")
        for (check, finding), count in others.most_common(12)
    ]
    more = f" and {len(others) - 12} more" if len(others) > 12 else ""
    return f"The same defect, or one that may follow from it: {', '.join(named)}{more}."


def _known(view: View) -> list[str]:
    rows = [
        [
            code(group.first.get("op")),
            text(group.first.get("finding") or message_of(group.first)),
            group.cases,
            text(group.first.get("known") or "an xfail mark"),
        ]
        for group in view.known
    ]
    return _table("Known failures", ["op", "finding", "cases", "reason"], rows)


def _notes(view: View) -> list[str]:
    rows = [
        [
            code(group.first.get("op")),
            text(group.code),
            text(group.first.get("changed") or group.cases),
            text(group.first.get("why_noted") or ""),
        ]
        for group in view.notes
    ]
    return _table("Notes, which are no failures", ["op", "finding", "inputs", "why a note"], rows)


def _unchecked(view: View) -> list[str]:
    rows = [
        [
            code(group.first.get("op")),
            text(check_of(group.first)),
            group.cases,
            text(message_of(group.first)),
        ]
        for group in view.unchecked
    ]
    parts = _table("What could not be checked", ["op", "check", "cases", "why"], rows)
    lines = [*view.omitted, *all_lines(map(NamespaceCoverage.from_dict, view.coverage))]
    if lines:
        listed = "\n".join(f"- {text(line)}" for line in lines[:_ROWS])
        parts.append(_details(f"What no case covers ({len(lines)})", [listed]))
    return parts


def _table(title: str, head: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows[:_ROWS])]
    more = [f"and {len(rows) - _ROWS} more"] if len(rows) > _ROWS else []
    return [_details(f"{title} ({len(rows)})", ["\n".join(lines), *more])]


def _environment(view: View) -> str:
    environment = view.environment
    names = ("torch", "cuda", "gpu", "python", "pytest", "pytest_customop", "backend", "seed")
    facts = [
        f"{name.replace('_', '-')} {text(environment[name])}"
        for name in names
        if environment.get(name) is not None
    ]
    return f"<sub>{', '.join(facts)}</sub>" if facts else ""
