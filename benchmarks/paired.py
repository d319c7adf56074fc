"""What the benchmarks share: sessions in a process of their own, runs by turns, medians and ratios.

Every measurement is two numbers: wall time, and the CPU time of the process and its children, which
says more where other programs run on the machine as well.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

# A conftest that prints how long one phase of a pytest session took, torch imported before it.
TIMED = """
import time

import pytest
import torch


@pytest.hookimpl(wrapper=True)
def {hook}():
    wall, cpu = time.perf_counter(), time.process_time()
    result = yield
    print("took", time.perf_counter() - wall, time.process_time() - cpu)
    return result
"""


class Took(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


def environment(folder: Path) -> dict[str, str]:
    """The environment of a measured process: compiled code is kept, in `folder`.

    This repository comes first on the path, so that its state is what is measured. Its byte code is
    written before: what is installed has its own from pip, and whichever side runs first would
    otherwise pay for both.
    """
    for package in (HERE, HERE.parent / "pytest_customop", HERE.parent / "reference_ops"):
        compileall.compile_dir(package, quiet=1)
    # pytest keeps byte code of its own, for the modules of plugins.
    unwanted = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    kept["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    paths = [str(HERE.parent), str(HERE), *filter(None, [kept.get("PYTHONPATH")])]
    kept["PYTHONPATH"] = os.pathsep.join(paths)
    return kept


def run(
    command: Sequence[str], cwd: Path, env: dict[str, str], allowed: Collection[int] = (0,)
) -> str:
    """Run a command of this Python and return what it printed.

    Raises:
        RuntimeError: if its exit status is not one of those allowed, with what it printed.
    """
    whole = [sys.executable, *command]
    done = subprocess.run(whole, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode not in allowed:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def whole(
    command: Sequence[str], cwd: Path, env: dict[str, str], allowed: Collection[int] = (0,)
) -> Took:
    """What a command of this Python takes from its start to its end."""
    wall, cpu = time.perf_counter(), _cpu_of_children()
    run(command, cwd, env, allowed)
    return Took(time.perf_counter() - wall, _cpu_of_children() - cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def phase(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Took:
    """What the phase takes that a conftest with `TIMED` prints."""
    wall, cpu = run(command, cwd, env).rpartition("took ")[2].split()[:2]
    return Took(float(wall), float(cpu))


def by_turns(
    runs: int, first: Callable[[], Took], second: Callable[[], Took]
) -> tuple[list[Took], list[Took]]:
    """Call two measurements by turns; every second pair in the other order."""
    results: tuple[list[Took], list[Took]] = ([], [])
    for turn in range(runs):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            results[side].append((first, second)[side]())
    return results


def told(first_name: str, first: Sequence[Took], second_name: str, second: Sequence[Took]) -> Took:
    """Print both medians and both fastest runs, ratios and differences; return that of the medians.

    Other load makes runs longer and never shorter: where it comes and goes, the fastest say more.
    """
    print(
        f"{len(first)} runs{'':8}{first_name:>16} {second_name:>16} {'ratio':>8} {'difference':>16}"
    )
    medians = [_row("median", which, statistics.median, first, second) for which in Took._fields]
    for which in Took._fields:
        _row("fastest", which, min, first, second)
    return Took(*medians)


def _row(
    label: str,
    which: str,
    of: Callable[[Iterable[float]], float],
    first: Sequence[Took],
    second: Sequence[Took],
) -> float:
    left, right = (of(getattr(took, which) for took in side) for side in (first, second))
    columns = " ".join(f"{value * 1e3:13.1f} ms" for value in (left, right))
    print(f"{label:8}{which:5} {columns} {left / right:8.3f} {(left - right) * 1e3:13.1f} ms")
    return left - right


def folder() -> tempfile.TemporaryDirectory[str]:
    """A fresh folder, removed in the end."""
    return tempfile.TemporaryDirectory(prefix="customop-benchmark-")
