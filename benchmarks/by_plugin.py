"""The cases of `by_hand.py` through the plugin: the same checks, or others.

    python benchmarks/by_plugin.py [CHECKS]

Prints what it found and how long it took, collection included, as JSON. `loop.py` runs it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from stopwatch import Stopwatch
from torch.testing._internal import custom_op_db  # noqa: F401 -- no side pays for this import

CHECKS = "opcheck,compile.static,gradcheck.backward"


class Results:
    """What pytest's reports say."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.items = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.items += 1
            if report.failed:
                self.failed.append(report.nodeid)


def main(checks: str = CHECKS) -> None:
    """Run the session."""
    results = Results()
    path = str(Path(__file__).parent / "workload.py")
    with tempfile.TemporaryDirectory() as folder:
        options = ["-p", "no:cacheprovider", "-p", "no:randomly", "-q", f"--rootdir={folder}"]
        options += ["-c", f"{folder}/none.ini", f"--customop-checks={checks}"]
        options += ["--customop-variants=off"]  # the loop knows the samples only
        (Path(folder) / "none.ini").write_text("[pytest]\n")
        start = Stopwatch()
        status = pytest.main([*options, path], plugins=[results])
        took = start.read()
    summary = {"items": results.items, **took, "failed": results.failed, "status": status}
    print("\n" + json.dumps(summary))


if __name__ == "__main__":
    main(*sys.argv[1:])
