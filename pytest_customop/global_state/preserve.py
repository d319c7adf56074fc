"""Global state before a check is global state after it."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from ..core import rng
from . import process, settings, torch_logging

_T = TypeVar("_T")
_VARIABLES = 400  # that a context may take on before it is thrown away


@contextlib.contextmanager
def preserved_state() -> Iterator[Callable[[], None]]:
    """Put back what the block changes: random streams, what `ambient` lists, and `process`.

    Gradients are on inside, whatever they were outside; torch does not trace what it compiles for
    pytest. What the block is given puts all but random streams back at once, as they were when it began.
    """
    with (
        rng.preserved(),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
        settings.preserved() as restore_settings,
        process.preserved() as restore_process,
        torch_logging.untraced(),
    ):

        def restore() -> None:
            restore_process()
            restore_settings()

        yield restore


class _Contexts(threading.local):
    """The context of the checks of one thread, and what it was copied from."""

    outer: contextvars.Context | None = None
    own = contextvars.Context()
    entered = False


_contexts = _Contexts()


def in_own_context(call: Callable[..., _T], *args: object) -> _T:
    """Call with the caller's context variables, in a copy of its context that later calls share.

    From torch 2.13 on, every patch of a configuration adds a variable, which nothing can take out
    again: a session would grow by 20 a case, and every look at them with it. A copy a call would cost
    what torch has worked out from its configurations and keeps in variables too.
    """
    if _contexts.entered:
        return call(*args)
    now = contextvars.copy_context()
    if len(_contexts.own) > len(now) + _VARIABLES or not _same(now, _contexts.outer):
        _contexts.outer, _contexts.own = now, now.copy()
    _contexts.entered = True
    try:
        return _contexts.own.run(call, *args)
    finally:
        _contexts.entered = False


def _same(now: contextvars.Context, before: contextvars.Context | None) -> bool:
    if before is None or len(now) != len(before):
        return False
    return all(before.get(variable, now) is value for variable, value in now.items())
