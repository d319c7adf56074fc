"""The plugin against the loop that an author writes by hand, on the same cases and checks.

    python benchmarks/loop.py [runs [workload [every]]]

There are two workloads, run one after the other unless one is named: `small` ops (`small_ops.py`), and
the `large` ones, with pictures, of `workload.py`. The loop is `by_hand.py`, the plugin's side
`by_plugin.py`: each runs in a process of its own, by turns, with caches of the compiler that are empty at
first ("cold", as in CI) and then with those that the run before it has left ("warm"). Both compile with
static sizes and with dynamic ones. Prints both, in wall time and in CPU time, children included. With
`every` N, every Nth sample of an op is taken only.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from paired import HERE, Took, environment, folder, run, told

CHECKS = "opcheck,compile.static,compile.dynamic,gradcheck.backward"
SIDES = {
    "plugin": (str(HERE / "by_plugin.py"), CHECKS),
    "loop": (str(HERE / "by_hand.py"), "1"),
}


def main(runs: int = 3, workload: str = "", every: int = 1) -> None:
    """Measure each workload and print."""
    for name in [workload] if workload else ["small", "large"]:
        _measure(name, runs, every)


def _measure(workload: str, runs: int, every: int) -> None:
    """Measure by turns and print."""
    found: dict[tuple[str, str], list[Any]] = {}
    with folder() as name:
        env = environment(Path(name))
        env |= {"CUSTOMOP_BENCHMARK_EVERY": str(every), "CUSTOMOP_BENCHMARK_OPS": workload}
        for turn in range(runs):
            for side in sorted(SIDES, reverse=turn % 2 == 1):
                for state in ("cold", "warm"):
                    if state == "cold":
                        shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
                    found.setdefault((side, state), []).append(_run(SIDES[side], name, env))
    for state in ("cold", "warm"):
        mine, theirs = found["plugin", state], found["loop", state]
        counted = f"{mine[0]['items']} items, {theirs[0]['cases']} cases by hand"
        print(f"\n{workload}, caches {state}: {counted}")
        told("plugin", [one["took"] for one in mine], "loop", [one["took"] for one in theirs])
        failed = [*mine[0]["failed"], *theirs[0]["failed"]]
        print("\n".join(["failed:", *failed]) if failed else "nothing failed on either side")


def _run(command: tuple[str, ...], cwd: str, env: dict[str, str]) -> Any:
    told = json.loads(run(command, Path(cwd), env).strip().splitlines()[-1])
    return {**told, "took": Took(told["wall"], told["cpu"])}


if __name__ == "__main__":
    runs, workload, every = [*sys.argv[1:], *("3", "", "1")[len(sys.argv) - 1 :]]
    main(int(runs), workload, int(every))
