"""Wall time, and CPU time of this process and its children: the C++ compiler is one."""

from __future__ import annotations

import os
import time


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def read(self) -> dict[str, float]:
        """Seconds since then."""
        return {"wall": time.perf_counter() - self._wall, "cpu": _cpu() - self._cpu}


def _cpu() -> float:
    return sum(os.times()[:4])
