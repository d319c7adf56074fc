"""The report as one HTML file, which needs no network and no other file.

Jinja2 writes it, with every text escaped. The content security policy of the page names the digests of the
script and the styles, so that nothing else can run in it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.paths import PACKAGE_ROOT
from ...core.wording import counted
from ..coverage import NamespaceCoverage, all_lines
from ..view import STATES, Group, View, case_of, check_of, message_of, state_of, told_of, word_for
from .rows import rows_of

if TYPE_CHECKING:
    import jinja2

_FOLDER = PACKAGE_ROOT / "report" / "page"
_PAGE = 1_700_000  # characters of results and cards: cards without room have one line each
_LEAST = 200_000  # characters for cards, however many results there are
_LINES = 500
_BARS = 12
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class _Numbered(NamedTuple):
    """A group with a card or a row, and its number in the page."""

    number: int
    group: Group


class _Section(NamedTuple):
    """One section of cards.

    Args:
        key, title: of the section.
        total: how many groups there are.
        cards: the groups that are shown in full, as HTML.
        lines: the groups that have one line.
        more: how many groups have neither.
    """

    key: str
    title: str
    total: int
    cards: list[str]
    lines: list[_Numbered]
    more: int


def render(report: Mapping[str, Any]) -> str:
    """The report as HTML.

    Args:
        report: as `json_file.as_report` makes it, or as a JSON report has it.
    """
    from jinja2.utils import htmlsafe_json_dumps

    view = View(report)
    environment = _environment()
    style, script = ((_FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    everything = [*view.defects, *view.known, *view.notes, *view.unchecked]
    numbered = [_Numbered(number, group) for number, group in enumerate(everything, 1)]
    rows = htmlsafe_json_dumps(
        rows_of(view.results, _number_of(view, numbered)), separators=(",", ":")
    )
    cards = _Cards(view, environment, max(_LEAST, _PAGE - len(rows)))
    by_group = {id(item.group): item for item in numbered}
    # The last one gets the room that the others leave.
    sections = [
        cards.section(key, title, [by_group[id(group)] for group in groups], share)
        for key, title, groups, share in (
            ("notes", "Notes", view.notes, 0.15),
            ("known", "Known failures", view.known, 0.15),
            ("failures", "Failures", view.defects, 1.0),
        )
        if groups
    ]
    text: str = environment.get_template("page.html.j2").render(
        view=view,
        style=style,
        script=script,
        policy=_policy(style, script),
        sections=sections[::-1],
        explained=[
            (name, explanation)
            for name, explanation in view.findings.items()
            if explanation.get("meaning")
        ],
        unchecked=[by_group[id(group)] for group in view.unchecked],
        uncovered=all_lines(map(NamespaceCoverage.from_dict, view.coverage)),
        rows=rows,
        times=[(key, _bars(view.seconds_by(key))) for key in ("op", "check")],
    )
    return text


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "states": STATES,
        "state_of": state_of,
        "check_of": check_of,
        "case_of": case_of,
        "message_of": message_of,
        "told_of": told_of,
        "word_for": word_for,
        "counted": counted,
        "longest_line": lambda text: max(map(len, str(text).splitlines()), default=0),
        "is_shown": _is_shown,
        "is_link": lambda address: str(address).startswith(("https://", "http://")),
    }
    return environment


def _is_shown(picture: Mapping[str, Any] | None) -> bool:
    """Whether there is a picture with valid parts: a file may contain anything there."""
    parts = [str((picture or {}).get(name)) for name in ("expected", "actual", "difference")]
    return picture is not None and all(map(_BASE64.fullmatch, parts))


def _policy(style: str, script: str) -> str:
    """The content security policy: this style, this script, and pictures that are part of the page."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _number_of(view: View, numbered: Iterable[_Numbered]) -> dict[int, int]:
    """By position of a result, the number of the card or row that shows it."""
    positions = {id(result): at for at, result in enumerate(view.results)}
    return {
        positions[id(result)]: number
        for number, group in numbered
        for result in (group.first, *group.others)
    }


class _Cards:
    """The cards of the page, as far as there is room.

    Args:
        room: characters.
    """

    def __init__(self, view: View, environment: jinja2.Environment, room: int) -> None:
        self._module: Any = environment.get_template("card.html.j2").module
        self._view = view
        self._room = room

    def section(self, key: str, title: str, groups: Sequence[_Numbered], share: float) -> _Section:
        """A section; groups without room have one line.

        Args:
            share: the share of the remaining room.
        """
        cards: list[str] = []
        room = int(self._room * share)
        for number, group in groups:
            card = self._module.card(group, number, self._view.findings.get(group.code) or {})
            if len(card) > room:
                break
            room -= len(card)
            self._room -= len(card)
            cards.append(card)
        rest = groups[len(cards) :]
        return _Section(
            key, title, len(groups), cards, list(rest[:_LINES]), max(0, len(rest) - _LINES)
        )


def _bars(seconds: Sequence[tuple[str, float]]) -> list[tuple[str, float, float]]:
    """Names with their seconds, and the lengths of their bars in percent of the longest one."""
    shown = [*seconds[:_BARS]]
    rest = seconds[_BARS:]
    if rest:
        shown.append((counted(len(rest), "other"), sum(value for _, value in rest)))
    longest = max((value for _, value in shown), default=0.0)
    return [(name, value, 100 * value / longest if longest else 0.0) for name, value in shown]
