"""Run checks in a copy of the caller's context variables, which checks share.

From torch 2.13 on, every patch of a configuration adds context variables, and nothing removes them: a
session would grow by 20 of them per case. torch also caches in them what it derives from its
configurations. So a copy for each call would be slow, and no copy would be a leak.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
MOST_ADDED = 400  # variables, before a new copy is made


class _Contexts(threading.local):
    """The shared context of one thread, and the caller's context that it was copied from."""

    original: contextvars.Context | None = None
    copy = contextvars.Context()
    entered = False


_contexts = _Contexts()


def in_shared_context(call: Callable[..., _T], *args: object) -> _T:
    """Call with the caller's context variables. Changes that the call makes to them stay in the copy."""
    if _contexts.entered:
        return call(*args)
    current = contextvars.copy_context()
    if len(_contexts.copy) > len(current) + MOST_ADDED or not _is_same(current, _contexts.original):
        _contexts.original, _contexts.copy = current, current.copy()
    _contexts.entered = True
    try:
        return _contexts.copy.run(call, *args)
    finally:
        _contexts.entered = False


def _is_same(current: contextvars.Context, before: contextvars.Context | None) -> bool:
    if before is None or len(current) != len(before):
        return False
    return all(before.get(variable, current) is value for variable, value in current.items())
