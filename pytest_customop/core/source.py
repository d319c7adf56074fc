"""Lay out Python source as `ruff format` does: on one line if it fits, else one element per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 88  # ruff's own default
_INDENT = "    "


@dataclass(frozen=True)
class Bracketed:
    """A call, a list or a tuple.

    Args:
        opening, closing: the brackets, `opening` with the text before it: `samples=[` and `]`.
        elements: texts, or nested `Bracketed`.
        comma: whether a comma follows the only element, as in a tuple.
        comments: a comment above each element, or "" for none; empty: no comments. They are left out where
            everything is on one line.
        exploded: whether each element has its own line even if all fit on one.
    """

    opening: str
    elements: Sequence[str | Bracketed]
    closing: str
    comma: bool = False
    comments: Sequence[str] = ()
    exploded: bool = False

    def __str__(self) -> str:
        """On one line."""
        inside = ", ".join(map(str, self.elements))
        return f"{self.opening}{inside}{',' * self.comma}{self.closing}"


Expression = str | Bracketed


def laid_out(expression: Expression, depth: int = 0, after: str = "") -> str:
    """The lines of an expression, the first without its indentation.

    Args:
        depth: how far it is indented.
        after: what follows on its last line.
    """
    text = str(expression)
    fits = len(_INDENT * depth) + len(text) + len(after) <= WIDTH
    if isinstance(expression, str) or (fits and not _is_exploded(expression)):
        return text + after
    if not expression.elements:
        return text + after
    inner = _INDENT * (depth + 1)
    lines = [expression.opening]
    for at, element in enumerate(expression.elements):
        if expression.comments and expression.comments[at]:
            lines.append(f"{inner}# {expression.comments[at]}")
        lines.append(inner + laid_out(element, depth + 1, ","))
    lines.append(f"{_INDENT * depth}{expression.closing}{after}")
    return "\n".join(lines)


def _is_exploded(expression: Expression) -> bool:
    return isinstance(expression, Bracketed) and (
        expression.exploded or any(map(_is_exploded, expression.elements))
    )


def quoted(text: str) -> str:
    """A string literal with the quotes that ruff uses."""
    literal = repr(text)
    plain = '"' not in text and "\\" not in literal
    return f'"{literal[1:-1]}"' if plain else literal
