"""Mistakes in a mark, or in a call with the mark's arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class MarkError(Exception):
    """An invalid mark or call; the message says where it is and what is allowed."""


def wrong_mark(message: str, where: str) -> MarkError:
    """The error for a mistake in a mark, with the reason first: pytest's summary cuts long lines.

    Args:
        where: file and line, and the name of what is marked.
    """
    return MarkError(f"customop_cases: {message} [{where}]")


def raised_at_call(function: Callable[P, T]) -> Callable[P, T]:
    """Let a `MarkError` leave the function without the frames inside of it, which are not the caller's."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except MarkError as mistake:
            raise mistake.with_traceback(None) from mistake.__cause__

    return wrapper
