"""The explanation of a finding or a check as a page: for the terminal, and for the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..checks import Check, catalogue
from ..checks.check import COSTS
from ..findings import Explanation

_WIDTH = 96


def as_text(code: str, entry: Explanation) -> str:
    """The page that `--customop-explain` prints for a finding.

    Args:
        code: of the finding.
        entry: its explanation.
    """
    parts = [code, _folded(entry.meaning)]
    if entry.why:
        parts.append(_folded(entry.why))
    parts.append(_folded(f"What to change: {entry.fix}"))
    for title, lines in (("Before:", entry.before), ("After:", entry.after)):
        if lines:
            parts.append(f"{title}\n\n{textwrap.indent(textwrap.dedent(lines).strip(), '    ')}")
    if entry.follows:
        parts.append(_folded(f"It may follow from: {', '.join(entry.follows)}."))
    if entry.docs:
        parts.append("\n".join(["To read:", *(f"    {address}" for address in entry.docs)]))
    return "\n\n".join(parts)


def check_as_text(check: Check, codes: Sequence[str]) -> str:
    """The page that `--customop-explain` prints for a check.

    Args:
        check: a check of the package, of a plugin or of a conftest.
        codes: the codes of the findings that are explained for it.
    """
    parts = [check.name + ("" if check.default else " (opt-in)"), _folded(check.summary)]
    for title, text in (("Catches", check.catches), ("Cannot see", check.cannot_see)):
        if text:
            parts.append(_folded(f"{title}: {text}"))
    if check.cost:
        parts.append(f"Cost: {COSTS[check.cost]}.")
    if codes:
        parts.append(_folded(f"Findings: {', '.join(codes)}."))
    return "\n\n".join(parts)


def _folded(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def as_markdown(code: str) -> str:
    """The page of the documentation."""
    entry = catalogue()[code]
    parts = [f"# {code}", entry.meaning]
    if entry.why:
        parts += ["## Why it matters", entry.why]
    parts += ["## What to change", entry.fix]
    for title, lines in (("Before", entry.before), ("After", entry.after)):
        if lines:
            parts.append(f"{title}:\n\n```python\n{textwrap.dedent(lines).strip()}\n```")
    if entry.follows:
        others = ", ".join(f"[{cause}]({cause}.md)" for cause in entry.follows)
        parts += ["## What it may follow from", others]
    if entry.docs:
        parts += ["## To read", "\n".join(f"- <{address}>" for address in entry.docs)]
    return "\n\n".join(parts) + "\n"
