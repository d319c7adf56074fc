"""The results as a table of small numbers, which the script of the page filters and counts.

So ten thousand results take some 500 kB. Each text is stored once in a list, and columns have its position.
A column whose values are all equal is stored as that value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from ...core.wording import first_line
from ..view import STATES, Result, check_of, message_of, state_of

_MESSAGE = 300  # characters
_SHORT = 60  # if the messages together are too long
_MESSAGES = 400_000  # characters of all messages
_STATES = tuple(STATES)


class _Texts:
    """Texts, each once."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._at: dict[Hashable, int] = {"": 0}

    def __call__(self, value: object) -> int:
        """The position of a text; None counts as the empty text."""
        text = "" if value is None else str(value)
        if text not in self._at:
            self._at[text] = len(self.all)
            self.all.append(text)
        return self._at[text]


def rows_of(results: Sequence[Result], group_of: Mapping[int, int]) -> dict[str, Any]:
    """The table.

    Args:
        results: of the report.
        group_of: by position, the number of the card that shows a result.
    """
    texts = _Texts()
    longest = _MESSAGE
    if sum(len(message) for message in {message_of(result) for result in results}) > _MESSAGES:
        longest = _SHORT
    columns: dict[str, Iterable[int]] = {
        name: [texts(result.get(name)) for result in results]
        for name in ("op", "device", "dtype", "layout", "sample", "variant", "finding")
    }
    columns["check"] = [texts(check_of(result)) for result in results]
    columns["message"] = [texts(first_line(message_of(result))[:longest]) for result in results]
    columns["grad"] = [_gradients(result) for result in results]
    columns["state"] = [_STATES.index(state_of(result)) for result in results]
    columns["ms"] = [round(1000 * float(result.get("duration") or 0)) for result in results]
    columns["card"] = [group_of.get(at, 0) for at in range(len(results))]
    columns |= _ids(results, texts)
    return {
        "count": len(results),
        "states": [[state.key, state.mark, state.word] for state in STATES.values()],
        "texts": texts.all,
        "columns": {name: _column(values) for name, values in columns.items()},
    }


def _gradients(result: Result) -> int:
    """0: not known; 1: without; 2: with."""
    gradients = result.get("requires_grad")
    return 0 if gradients is None else 1 + bool(gradients)


def _ids(results: Sequence[Result], texts: Callable[[object], int]) -> dict[str, list[int]]:
    """Node ids in three parts, which many share: the test, the case, and whether the check ends them."""
    parts = []
    for result in results:
        test, bracket, rest = str(result["nodeid"]).partition("[")
        end = f"-{result.get('check')}]"
        is_usual = rest.endswith(end)
        case = rest.removesuffix(end) if is_usual else rest
        parts.append((texts(test + bracket), texts(case), int(is_usual)))
    return {name: [part[at] for part in parts] for at, name in enumerate(("test", "case", "usual"))}


def _column(values: Iterable[int]) -> list[int] | int:
    numbers = list(values)
    return numbers[0] if numbers and len(set(numbers)) == 1 else numbers
