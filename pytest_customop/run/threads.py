"""How many threads torch has while a check runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..cases.case import Case
from ..cases.crash_risk import crash_risk
from ..core.torch_threads import torch_threads


@contextlib.contextmanager
def one_thread_for_variant(case: Case) -> Iterator[None]:
    """Let torch use one thread for a variant of an op that is written in Python.

    Where other programs use the processor, threads of torch that wait for each other take most of the
    time. A native kernel keeps them all: it may divide its work among them wrongly.
    """
    if case.base_case is None or crash_risk(case.op, case.placement.device) is not None:
        yield
        return
    with torch_threads(1):
        yield
