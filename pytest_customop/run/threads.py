"""The number of threads that torch uses while a check runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..cases.case import Case
from ..cases.crash_risk import may_crash
from ..core.torch_threads import torch_threads


@contextlib.contextmanager
def one_thread_for_variant(case: Case) -> Iterator[None]:
    """Let torch use one thread for a variant of an op that is written in Python.

    If other programs use the processor, torch's threads spend most of the time waiting for each other.
    A native kernel keeps all threads, because it may divide its work among them wrongly.
    """
    if case.base_case is None or may_crash(case):
        yield
        return
    with torch_threads(1):
        yield
