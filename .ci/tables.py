"""Rewrite the parts of the docs that follow from the code.

    python .ci/tables.py            rewrite what is out of date
    python .ci/tables.py --check    name what is out of date, and exit with 1

Such a part stands between `<!-- table: NAME -->` and `<!-- end table -->`. To add one, write a function
that returns its Markdown, enter it in `TABLES`, and put the two markers where it belongs.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pytest_customop import hookspecs  # noqa: E402
from pytest_customop.checks import Family, builtin_checks, families  # noqa: E402
from pytest_customop.checks.check import COSTS  # noqa: E402

PAGES = sorted((ROOT / "docs").glob("*.md"))
COMMAND = "python .ci/tables.py"

_PART = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end table -->)", re.DOTALL)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; `|` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def checks() -> str:
    """Every built-in check with its summary, and `body`: `docs/checks.md`."""
    rows = [
        [
            f"[`{check.name}`](#{check.name.replace('.', '')})",
            check.summary + ("" if check.default else " (opt-in)"),
        ]
        for check in builtin_checks()
    ]
    return markdown_table(["check", "compares"], [*rows, ["`body`", "the test's own assertions"]])


def checks_by_family() -> str:
    """Every family and what its checks catch, cannot see and cost: `docs/checks.md`."""
    return "\n\n".join(part for family in families() for part in _family(family))


def _family(family: Family) -> Iterator[str]:
    yield f"## {family.name}"
    yield family.summary
    if family.introduction:
        yield family.introduction
    if family.shared:
        yield f"Findings that several checks report: {_listed(family.shared)}."
    for check in family.checks:
        yield f"### `{check.name}`"
        yield f"{_sentence(check.summary)}{'' if check.default else ' Opt-in.'}"
        yield _wrapped(f"**Catches.** {check.catches}")
        yield _wrapped(f"**Cannot see.** {check.cannot_see}")
        facts = [f"**Cost.** {_sentence(COSTS[check.cost])}"]
        if check.findings:
            facts.append(f"**Findings.** {_listed(check.findings)}.")
        yield _wrapped(" ".join(facts))


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of torch, and with an end."""
    first = text[0] if text.startswith("torch") else text[0].upper()
    return f"{first}{text[1:]}{'' if text.endswith('.') else '.'}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 105, break_long_words=False, break_on_hyphens=False)


# Of checks for what no other tool for custom ops looks for: the processor time of a case beside that
# of the four opchecks, and what was found in released packages (`docs/released-packages.md`).
_BEYOND_OPCHECK = {
    "devices.agree": ("one more call on each device", "not run: it needs a second device"),
    "fake.device": ("0.13", "nothing"),
    "state.leaks": ("0.5", "nothing"),
    "values.bounds": ("0.7 for a native kernel, none for one in Python", "5 ops; 5 more in notes"),
    "values.threads": ("1.25", "2 ops"),
    "values.wide_strides": (
        "1.0 for a native kernel, none for one in Python",
        "4 ops, in notes: torch is at fault",
    ),
}


def checks_beyond_opcheck() -> str:
    """Codes, specimens, cost and yield of the checks in `_BEYOND_OPCHECK`: `docs/checks.md`."""
    from tests.zoo import specimens

    zoo = specimens()
    known = {check.name: check for check in builtin_checks()}
    rows = []
    for name, (cost, released) in _BEYOND_OPCHECK.items():
        broken = {
            key
            for key, specimen in zoo.items()
            if name in {*specimen.expected, *specimen.variant_findings}
        }
        alone = [
            key for key in broken if {*zoo[key].expected, *zoo[key].variant_findings} == {name}
        ]
        twins = [key for key, specimen in zoo.items() if broken & _names(specimen.twin_of)]
        count = (
            f"{len(broken)} ({len(alone)}), {len(twins)}"
            if broken
            else "tests/test_devices_agree.py"
        )
        link = f"[`{name}`](#{name.replace('.', '')})"
        rows.append([link, _listed(known[name].findings), count, cost, released])
    head = ["check", "findings", "broken ops (by it alone), twins", "cost", "in released packages"]
    return markdown_table(head, rows)


def _names(names: str | tuple[str, ...]) -> set[str]:
    return {names} if isinstance(names, str) else {*names}


def options() -> str:
    """Every option as on the command line, with what it does: `docs/options.md`."""
    from pytest_customop.plugin.options import ALL_OPTIONS

    rows = []
    for option in ALL_OPTIONS:
        value = f"={option.example}" if option.example else ""
        default = f" (default: {option.default})" if option.default else ""
        about = option.help + default + (f". {option.more}" if option.more else "")
        rows.append([f"`{option.flag}{value}`", about])
    return markdown_table(["option", ""], rows)


def hooks() -> str:
    """Every hook with its arguments and the first sentence of its docstring: `docs/hooks.md`."""
    rows = []
    for name, function in vars(hookspecs).items():
        if name.startswith("pytest_customop_"):
            arguments = ", ".join(inspect.signature(function).parameters)
            summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
            rows.append([f"`{name}({arguments})`", summary])
    return markdown_table(["hook", ""], rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "checks": checks,
    "checks-by-family": checks_by_family,
    "checks-beyond-opcheck": checks_beyond_opcheck,
    "options": options,
    "hooks": hooks,
}


def rewritten(text: str) -> str:
    """A page with every part as the code has it now.

    Raises:
        SystemExit: for a marker with a name that is not in `TABLES`.
    """

    def part(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            sys.exit(f"no table is named {name!r}; .ci/tables.py has {', '.join(TABLES)}")
        return f"{match[1]}\n{TABLES[name]().strip()}\n\n{match[3]}"

    return _PART.sub(part, text)


def out_of_date() -> Iterator[tuple[Path, str]]:
    """The pages that are not as the code has them, with what they should be."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            yield page, new


def main() -> int:
    parser = argparse.ArgumentParser(description="Rewrite the tables that follow from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1")
    only_check = parser.parse_args().check
    stale = list(out_of_date())
    for page, new in stale:
        name = page.relative_to(ROOT)
        if only_check:
            print(f"{name} is out of date; rewrite its tables with: {COMMAND}")
        else:
            page.write_text(new, encoding="utf-8")
            print(f"{name} rewritten")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
