"""What a child process costs an item, and how long the child takes to start.

    python benchmarks/isolation.py [runs]

Runs 300 items of `fake.forward` on a small op, by turns in one process and with `--customop-isolate`,
and prints the time of an item (from its logstart to its logfinish, all of pytest included; the tenth
percentile, which other load on the machine moves least), difference and ratio, and the time of the
first isolated item, in which the child starts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

CONFTEST = """
import json, time
SPENT = []

def pytest_runtest_logstart():
    SPENT.append(-time.perf_counter())

def pytest_runtest_logfinish():
    SPENT[-1] += time.perf_counter()

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        with open("spent.json", "w") as file:
            json.dump(SPENT, file)
"""
TESTS = """
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("bench::copy", mutates_args=())
def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

copy.register_fake(torch.empty_like)

@customop_cases(copy, [(tensor(n),) for n in range(2, 302)], checks="fake.forward")
def test_copy(): ...
"""


def spent(folder: Path, *options: str, variables: Mapping[str, str] | None = None) -> list[float]:
    """The wall time of each item of one session, in seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = {**os.environ, **(variables or {})}
    ran = subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True)
    if ran.returncode not in (0, 1):  # items may fail
        raise RuntimeError(ran.stdout.decode())
    times: list[float] = json.loads((folder / "spent.json").read_text())
    return times


def main(runs: int = 3) -> None:
    """Measure by turns and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_copy.py").write_text(TESTS)
        spent(folder)  # warm the disk's cache
        pairs = [(spent(folder), spent(folder, "--customop-isolate")) for _ in range(runs)]
    here, child = (
        statistics.median(statistics.quantiles(run[1:], n=10)[0] for run in column)
        for column in zip(*pairs, strict=True)
    )
    start = statistics.median(isolated[0] for _, isolated in pairs)
    print(f"an item in one process  {here * 1e3:7.2f} ms (median of {runs} runs)")
    print(f"an item in a child      {child * 1e3:7.2f} ms")
    print(f"ratio {child / here:.2f}, difference {(child - here) * 1e3:.2f} ms")
    print(f"the child's start, with torch and one file: {start:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
