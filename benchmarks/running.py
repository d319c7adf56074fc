"""What the plugin adds to an item: the same calls of an op, marked and in a parametrized test.

    python benchmarks/running.py [runs [items]]

Both are sessions of pytest, so that its own cost is on both sides; what is timed is the loop over the
items, collection left out. The check of the marked test calls the op once on fresh inputs, and so
does the parametrized test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paired import TIMED, by_turns, environment, folder, phase, told

OP = """
import pytest
import torch
from torch.testing import make_tensor

@torch.library.custom_op("running::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

def call(*args):
    assert twice(*args).shape == args[0].shape
"""
MARKED = """
from pytest_customop import Check, Sample, customop_cases, tensor

samples = [Sample((tensor(8, 8),), id=f"sample{{index}}") for index in range({items})]

@customop_cases(twice, samples, checks="running.call")
def test(): ...
"""
PLAIN = """
@pytest.mark.parametrize("index", range({items}))
def test(index):
    call(make_tensor((8, 8), dtype=torch.float32, device="cpu"))
"""
CHECK = """

def pytest_customop_register_checks():
    from pytest_customop import Check

    def call(case):
        from test_it import call

        call(*case.inputs().args)

    return [Check("running.call", "calls the op", call)]
"""
RUN = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", "-s")


def main(runs: int = 7, items: int = 1000) -> None:
    """Measure by turns and print."""
    with folder() as name:
        env = environment(Path(name))
        for kind, source in (("marked", MARKED), ("plain", PLAIN)):
            Path(name, kind).mkdir()
            Path(name, kind, "conftest.py").write_text(
                TIMED.format(hook="pytest_runtestloop") + CHECK
            )
            Path(name, kind, "test_it.py").write_text(OP + source.format(items=items))

        marked, plain = Path(name, "marked"), Path(name, "plain")
        pairs = by_turns(runs, lambda: phase(RUN, marked, env), lambda: phase(RUN, plain, env))
    added = told("marked", pairs[0], "parametrized", pairs[1])
    per_item = (f"{part / items * 1e3:.2f} ms" for part in added)
    print("added to each of {} items: {} (wall), {} (CPU)".format(items, *per_item))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
