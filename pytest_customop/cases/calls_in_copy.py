"""Calls of an op in a copy of this process, so that a crash ends only the copy."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

import torch

from ..core.forked import Forked, Send, run_in_copy
from ..declare.ops import Op
from .case import Case

_hanging: WeakSet[Op] = WeakSet()  # whose calls did not return in a copy


def run_calls_in_copy(
    case: Case, work: Callable[[Send], None], seconds: float = 60.0
) -> Forked | None:
    """As `core.forked.run_in_copy`, for work that calls the op of a case and, if it has one, its backward.

    Also None on a device other than the CPU, whose threads and memory a copy does not have, for a case
    with gradients if no backward runs in a copy, and for an op that has hung in a copy before it sent
    anything: that is not tried a second time.
    """
    if torch.device(case.placement.device).type != "cpu" or case.op in _hanging:
        return None

    def calls(send: Send) -> None:
        torch.set_num_threads(1)  # a fork has none of the threads of a pool
        if not case.requires_grad or _autograd_works():
            work(send)

    forked = run_in_copy(calls, seconds)
    if forked is not None and forked.hung and not forked.messages:
        _hanging.add(case.op)
        return None
    return forked


def _autograd_works() -> bool:
    """Whether this process can run a backward.

    A copy of a process that has used autograd on another device, a fake one included, cannot if the fork
    handlers have run.
    """
    x = torch.ones(1, requires_grad=True)
    try:
        torch.autograd.grad(x.sum(), x)
    except RuntimeError:
        return False
    return True
