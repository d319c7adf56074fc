"""The call of an op in which a child process dies: sent before the call, and shown in the result."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.tracebacks import reraise_bug

if TYPE_CHECKING:
    from ...cases.arguments import Arguments
    from ...cases.case import Case

_MOST = 2**22  # bytes of integers in one message


def sender(send: Callable[[bytes | None], None]) -> Callable[[Arguments | None], None]:
    """A function that sends each call of this thread and process: the arguments before it, None after it.

    A call that cannot be described, such as one with fake tensors, is not sent.
    """
    thread = os.getpid(), threading.get_ident()
    was_sent = False

    def on_call(arguments: Arguments | None) -> None:
        nonlocal was_sent
        if (os.getpid(), threading.get_ident()) != thread:
            return
        data = None if arguments is None else _packed(arguments)
        if was_sent or data is not None:
            send(data)
        was_sent = data is not None

    return on_call


def _packed(arguments: Arguments) -> bytes | None:
    from ...cases.tensors import is_ordinary
    from ...harvest.calls import SeenCall, seen_value

    try:
        if not all(is_ordinary(tensor) for _, tensor in arguments.tensors()):
            return None  # fake tensors have no values, and cannot be sent
        values = (*arguments.args, *arguments.kwargs.values())
        seen_values = [seen_value(value, True, _MOST) for value in values]
        count = len(arguments.args)
        seen_kwargs = dict(zip(arguments.kwargs, seen_values[count:], strict=True))
        return pickle.dumps(SeenCall(arguments.op.name, tuple(seen_values[:count]), seen_kwargs))
    except Exception as error:  # whatever the arguments are, the check goes on
        reraise_bug(error)
        return None


def with_call(case: Case, sent: bytes | None) -> Case | None:
    """A case with the arguments of a call that was sent; None if these are its own, or unknown."""
    from ...declare.ops import OpError
    from ...harvest.samples import NotReplayed, sample_of

    usual_call = _packed(case.inputs())
    if sent is None or usual_call is None:
        return None
    try:
        sample, usual = (sample_of(case.op, pickle.loads(call)) for call in (sent, usual_call))
    except (NotReplayed, OpError):
        return None
    return None if repr(sample) == repr(usual) else replace(case, sample=sample)
