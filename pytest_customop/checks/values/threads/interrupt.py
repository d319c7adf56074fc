"""Interrupt a thread at a chosen place of an op's Python code, and let another thread run there.

The interpreter may switch to another thread at each of these places. Waiting until it does so by itself
takes many calls; switching on purpose takes one.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from ....core.profiling import restore_profile
from ....core.tracebacks import is_of_author


@dataclass(frozen=True)
class Place:
    """A place in the code of an op's author where another thread may run.

    Args:
        file, line: where the code is.
        after: the function of torch, or another one not written in Python, that returned there; empty
            for the start of the line.
    """

    file: str
    line: int
    after: str = ""

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.line).strip()
        when = f"after {self.after} in" if self.after else "before"
        return f"{when} {self.file}:{self.line}" + (f": {source}" if source else "")


@dataclass
class Interruption:
    """A context manager under which this thread calls a function at one place of an author's code.

    Args:
        at: the number of the place, counted from 0; None for none.
        then: the function.
        places: the places that the thread passed, in order.
    """

    at: int | None = None
    then: Callable[[], None] = lambda: None
    places: list[Place] = field(default_factory=list)
    _authors: dict[CodeType, bool] = field(default_factory=dict)

    def __enter__(self) -> Interruption:
        self._before = sys.gettrace(), sys.getprofile()
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error: object) -> None:
        trace, profile = self._before
        restore_profile(profile)
        sys.settrace(trace)

    def _trace(self, frame: FrameType, event: str, value: Any) -> Any:
        if not self._is_of_author(frame.f_code):
            return None
        if event == "line":
            self._pass(Place(frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    def _profile(self, frame: FrameType, event: str, value: Any) -> None:
        if event == "c_return" and self._is_of_author(frame.f_code):
            name = getattr(value, "__name__", "a function")
            self._pass(Place(frame.f_code.co_filename, frame.f_lineno, name))

    def _is_of_author(self, code: CodeType) -> bool:
        known = self._authors.get(code)
        if known is None:
            known = self._authors[code] = is_of_author(code.co_filename)
        return known

    def _pass(self, place: Place) -> None:
        number = len(self.places)
        self.places.append(place)
        if number == self.at:
            self.then()


def choose(places: list[Place], most: int) -> list[int]:
    """The numbers of at most `most` places, where each is first passed, spread over all of them."""
    first: dict[Place, int] = {}
    for number, place in enumerate(places):
        first.setdefault(place, number)
    numbers = sorted(first.values())
    if len(numbers) <= most:
        return numbers
    return [numbers[index * len(numbers) // most] for index in range(most)]
