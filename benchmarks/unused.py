"""What the plugin costs a suite that does not use it: the start of a pytest session with and without.

    python benchmarks/unused.py [runs]

Runs `pytest` on one empty test in a fresh folder, by turns with the plugin and with `-p no:customop`,
and prints the medians and their ratio.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(folder: Path, *options: str) -> float:
    """The wall time of one session."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main(runs: int = 20) -> None:
    """Measure by turns and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text("def test_nothing(): ...\n")
        seconds(folder), seconds(folder, "-p", "no:customop")  # warm the disk's cache
        pairs = [(seconds(folder), seconds(folder, "-p", "no:customop")) for _ in range(runs)]
    with_plugin, without = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"with the plugin    {with_plugin * 1e3:7.1f} ms (median of {runs})")
    print(f"without            {without * 1e3:7.1f} ms")
    print(f"ratio {with_plugin / without:.3f}, difference {(with_plugin - without) * 1e3:.1f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
