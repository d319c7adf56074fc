"""What a suite pays for the child that runs the variants of its one native op.

    python benchmarks/native.py [runs]

Runs the checks of a correct op that calls C, by turns as they run by default and with
`--customop-isolate=off`, which skips the variants that could crash the process. The difference is the start
of the child and what runs there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paired import by_turns, environment, folder, told, whole

TESTS = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("bench::copies", mutates_args=())
def copies(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), x.numel() * x.element_size())
    return out

copies.register_fake(lambda x: torch.empty_like(x, memory_format=torch.contiguous_format))

@customop_cases(copies, [(tensor(4, 6),)], variants="shape")
def test_copies(): ...
"""
COMMAND = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]


def main(runs: int = 3) -> None:
    """Measure by turns and print."""
    with folder() as name:
        path = Path(name)
        (path / "test_native.py").write_text(TESTS)
        env = environment(path)
        whole(COMMAND, path, env)  # compiles byte code and graphs
        auto, off = by_turns(
            runs,
            lambda: whole(COMMAND, path, env),
            lambda: whole([*COMMAND, "--customop-isolate=off"], path, env),
        )
        told("auto", auto, "off", off)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
