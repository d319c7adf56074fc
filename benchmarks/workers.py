"""What a second core gives: the checks of reference_ops in one process, and with pytest-xdist's -n 2.

    python benchmarks/workers.py [runs] [expression]

Runs `pytest --pyargs reference_ops --customop-variants=off -k EXPRESSION` by turns alone and with
`-n 2`, after one run that fills the compiler's cache on disk, and prints the medians and their ratio:
0.5 is all that two cores can give. What a worker takes to start, to import torch and to collect is part
of it; so that it can be told apart, the same is measured with nothing to run. On a machine that is busy
with other things the ratio says nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

SELECTION = "test_crop or test_paste"
NOTHING = "no_test_has_this_name"


def seconds(expression: str, *options: str) -> float:
    """The wall time of one session."""
    command = [sys.executable, "-m", "pytest", "--pyargs", "reference_ops", "-q", "-k", expression]
    plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "--customop-variants=off"]
    start = time.perf_counter()
    done = subprocess.run([*command, *plugins, *options], capture_output=True, text=True)
    if done.returncode not in (0, 5):  # 5: nothing was selected
        raise SystemExit(done.stdout + done.stderr)
    return time.perf_counter() - start


def main(runs: int = 3, expression: str = SELECTION) -> None:
    """Measure by turns and print."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first run")
    seconds(expression)
    pairs = [(seconds(expression), seconds(expression, "-n", "2")) for _ in range(runs)]
    starts = [(seconds(NOTHING), seconds(NOTHING, "-n", "2")) for _ in range(runs)]
    alone, two = (statistics.median(column) for column in zip(*pairs, strict=True))
    start_alone, start_two = (statistics.median(column) for column in zip(*starts, strict=True))
    print(f"one process   {alone:6.1f} s (median of {runs}), of which {start_alone:.1f} s to start")
    print(f"two workers   {two:6.1f} s, of which {start_two:.1f} s to start")
    running = (two - start_two) / (alone - start_alone)
    print(f"ratio {two / alone:.2f}; without what starting takes {running:.2f}")
    for number, (first, second) in enumerate(pairs, 1):
        print(f"  run {number}: {first:.1f} s and {second:.1f} s, ratio {second / first:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
