"""What collecting marked tests costs: 10,000 items against a plain parametrize with the same ids.

    python benchmarks/collecting.py [runs]

What is timed is the collection alone: torch is imported before it, on both sides. Then the peak memory
of collecting described tensors of 64 MB each against tensors of 64 bytes: nothing is allocated.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paired import TIMED, by_turns, environment, folder, phase, run, told

MARKED = """
import torch
from pytest_customop import Sample, customop_cases, tensor

@torch.library.custom_op("collecting::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)

twice.register_autograd(lambda ctx, grad: grad * 2)

samples = [Sample((tensor({size}),), id=f"sample{{index}}") for index in range({count})]

@customop_cases(twice, samples, checks={checks})
def test(): ...
"""
PLAIN = """
import pytest
import torch

@pytest.mark.parametrize("cell", range({count}), ids={ids!r})
def test(cell): ...
"""
CHECKS = [
    "opcheck.test_schema",
    "opcheck.test_faketensor",
    "fake.forward",
    "state",
    "values.repeat",
]
COLLECT = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--collect-only", "-qs")
PEAK = """
import resource, sys, pytest
status = pytest.main([*sys.argv[1:]])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def main(runs: int = 7, items: int = 10_000) -> None:
    """Measure by turns and print."""
    with folder() as name:
        marked, plain = Path(name, "marked"), Path(name, "plain")
        env = environment(Path(name))
        ids = _write(marked, env, items)
        plain.mkdir()
        for path in (marked, plain):
            (path / "conftest.py").write_text(TIMED.format(hook="pytest_collection"))
        (plain / "test_it.py").write_text(PLAIN.format(count=len(ids), ids=ids))

        run(COLLECT, plain, env)
        pairs = by_turns(
            runs, lambda: phase(COLLECT, marked, env), lambda: phase(COLLECT, plain, env)
        )
        print(f"{len(ids)} items")
        told("marked", pairs[0], "parametrized", pairs[1])
        small, large = (_peak(marked, env, items // 10, size) for size in ("16", "4096, 4096"))
        print(
            f"peak memory: {large:.0f} MB for tensors of 64 MB, {small:.0f} MB for those of 64 bytes"
        )
        print(f"ratio {large / small:.3f}")


def _write(folder: Path, env: dict[str, str], items: int, size: str = "16") -> list[str]:
    """A marked test with so many items, or a few more; returns their ids."""
    folder.mkdir(exist_ok=True)
    _file(folder, 1, size)
    a_sample = len(_ids(run(COLLECT, folder, env)))
    _file(folder, -(-items // a_sample), size)
    return _ids(run(COLLECT, folder, env))


def _file(folder: Path, count: int, size: str) -> None:
    text = MARKED.format(size=size, count=count, checks=CHECKS)
    (folder / "test_it.py").write_text(text)


def _ids(printed: str) -> list[str]:
    lines = [line for line in printed.splitlines() if "::test[" in line]
    return [line.partition("[")[2].removesuffix("]") for line in lines]


def _peak(folder: Path, env: dict[str, str], items: int, size: str) -> float:
    """The peak memory of a collection in MB."""
    _write(folder, env, items, size)
    printed = run(("-c", PEAK, *COLLECT[2:]), folder, env)
    return int(printed.rpartition("peak ")[2]) / 1024


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
