"""Whether a case costs more after many others: time a case and memory, up to 2,000 cases.

    python benchmarks/growth.py [cases]

One session over cases that all differ in size; every case gets the checks that make most: opcheck's
four and both of compile; 40 at a time can share the graph with dynamic sizes. Prints a line per block, and
the last block's ratio to the second (the first one pays for imports).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from paired import environment, folder, run

MARKED = """
import torch
from pytest_customop import Sample, customop_cases, tensor

@torch.library.custom_op("growth::twice", mutates_args=())
def twice(x: torch.Tensor, by: int) -> torch.Tensor:
    return x * 2 + by

@twice.register_fake
def _(x, by):
    return torch.empty_like(x)

# The formula calls the op, so that there is no C++ to compile for it.
twice.register_autograd(lambda ctx, grad: (twice(grad, 0), None))

samples = [
    Sample((tensor(2 + index % 40, 2 + index // 40), index // 40), id=f"{{index:05}}")
    for index in range({count})
]

@customop_cases(twice, samples, requires_grad=True, checks=["opcheck", "compile"])
def test(): ...
"""
CONFTEST = """
import gc
import json
import os
import time

import pytest

TOOK = []
BLOCK = {block}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    start = time.process_time()
    result = yield
    TOOK.append((item.name.split("-")[3], time.process_time() - start))
    if nextitem is None or item.name.split("-")[3] != nextitem.name.split("-")[3]:
        cases = len(set(case for case, _ in TOOK))
        if cases == BLOCK or nextitem is None:
            gc.collect()
            seconds = sum(each for _, each in TOOK)
            print("\\nblock", json.dumps([cases, seconds / cases, resident(), len(gc.get_objects())]))
            TOOK.clear()
    return result
"""
RUN = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", "-s")
RUN += ("--customop-variants=off",)


def main(cases: int = 2000, blocks: int = 20) -> None:
    """Run the session and print the curve."""
    with folder() as name:
        here = Path(name)
        (here / "conftest.py").write_text(CONFTEST.format(block=cases // blocks))
        (here / "test_it.py").write_text(MARKED.format(count=cases))
        printed = run(RUN, here, environment(here))
    lines = [line for line in printed.splitlines() if line.startswith("block ")]
    done, rows = 0, []
    print(f"{'cases':>6} {'ms of CPU a case':>17} {'memory in MB':>13} {'objects':>9}")
    for count, took, memory, objects in (json.loads(line[6:]) for line in lines):
        done += count
        rows.append((took, memory, objects))
        print(f"{done:6} {took * 1e3:17.1f} {memory:13.1f} {objects:9}")
    time, memory, objects = (last / first for last, first in zip(rows[-1], rows[1], strict=True))
    print(f"ratio of the last block to the second: time {time:.3f}, memory {memory:.3f}, ", end="")
    print(f"objects {objects:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
