"""What the plugin costs a suite that does not use it: the start of a pytest session with and without.

    python benchmarks/unused.py [runs]

Runs `pytest` on one empty test in a fresh folder, by turns with the plugin and with `-p no:customop`,
prints the medians and their ratio, and fails if torch was imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paired import by_turns, environment, folder, run, told, whole

EMPTY = "def test_nothing(): ...\n"
NO_TORCH = "import sys\n\ndef test_no_torch():\n    assert 'torch' not in sys.modules\n"
# pytest-randomly imports numpy, whose threads add to the noise.
WITH = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
WITHOUT = (*WITH, "-p", "no:customop")


def main(runs: int = 20) -> None:
    """Measure by turns and print."""
    with folder() as name:
        here = Path(name)
        env = environment(here)
        (here / "test_it.py").write_text(NO_TORCH)
        assert "1 passed" in run(WITH, here, env)
        (here / "test_it.py").write_text(EMPTY)
        run(WITH, here, env), run(WITHOUT, here, env)  # byte code, and the disk's cache
        pairs = by_turns(runs, lambda: whole(WITH, here, env), lambda: whole(WITHOUT, here, env))
    told("with the plugin", pairs[0], "without", pairs[1])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
