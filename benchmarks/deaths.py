"""What the death of a child costs, and how long the first child takes to start.

    python benchmarks/deaths.py [runs]

Runs 12 items of which every second one ends its child, by turns with children that are forked and with
children that are new interpreters. Prints the time of such an item and of the next one, for which the
child is replaced, and the time of the first item, in which the child starts.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from isolation import CONFTEST, spent

INTERPRETERS = """
import os
if os.environ.get("NEW_INTERPRETERS"):
    from pytest_customop.plugin.child import reusable
    reusable.FORKS = False
"""
TESTS = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("bench::dies", mutates_args=())
def dies(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 2 == 0:
        ctypes.string_at(0)
    return x.clone()

dies.register_fake(torch.empty_like)

@customop_cases(dies, [(tensor(n),) for n in range(101, 113)], checks="fake.forward", variants=False)
def test_dies(): ...
"""


def main(runs: int = 3) -> None:
    """Measure by turns and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST + INTERPRETERS)
        (folder / "test_dies.py").write_text(TESTS)
        times: dict[str, list[list[float]]] = {"": [], "1": []}
        for turn in range(runs):
            for new in ("", "1") if turn % 2 == 0 else ("1", ""):
                variables = {"NEW_INTERPRETERS": new}
                times[new].append(spent(folder, "--customop-isolate", variables=variables))
    forked, new = (_cost(times[key]) for key in ("", "1"))
    print(f"a death, forked child           {forked * 1e3:8.0f} ms (median of {runs} runs)")
    print(f"a death, new interpreter        {new * 1e3:8.0f} ms")
    print(f"ratio {forked / new:.3f}")
    for key, label in (("", "forked child"), ("1", "new interpreter")):
        start = statistics.median(run[0] for run in times[key])
        print(f"the first item, {label:16}{start * 1e3:8.0f} ms")


def _cost(runs: list[list[float]]) -> float:
    """Seconds of an item that ends its child and of the next one."""
    pairs = [statistics.median(map(sum, zip(run[1::2], run[2::2], strict=False))) for run in runs]
    return statistics.median(pairs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
