"""The plugin against the loop that an author writes by hand, on the same cases and checks.

    python benchmarks/loop.py [runs [workload [step]]]

There are two workloads, run one after the other unless one is named: `small` ops (`small_ops.py`), and
the `large` ones, with pictures, of `workload.py`. The loop is `by_hand.py`, the plugin's side
`by_plugin.py`: each runs in a process of its own, by turns, with caches of the compiler that are empty at
first ("cold", as in CI) and then with those that the run before it has left ("warm"). Both compile with
static sizes and with dynamic ones. Prints both, in wall time and in CPU time, children included. With
`step` N, every Nth sample of an op is taken only.
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


def main(runs: int = 3, workload: str = "", step: int = 1) -> None:
    """Measure each workload and print."""
    for name in [workload] if workload else ["small", "large"]:
        _measure(name, runs, step)


def _measure(workload: str, runs: int, step: int) -> None:
    """Measure by turns and print."""
    results: dict[tuple[str, str], list[Any]] = {}
    with folder() as name:
        env = environment(Path(name))
        env |= {"CUSTOMOP_BENCHMARK_EVERY": str(step), "CUSTOMOP_BENCHMARK_OPS": workload}
        for turn in range(runs):
            for side in sorted(SIDES, reverse=turn % 2 == 1):
                for state in ("cold", "warm"):
                    if state == "cold":
                        shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
                    results.setdefault((side, state), []).append(_run(SIDES[side], name, env))
    for state in ("cold", "warm"):
        plugin, loop = results["plugin", state], results["loop", state]
        counted = f"{plugin[0]['items']} items, {loop[0]['cases']} cases by hand"
        print(f"\n{workload}, caches {state}: {counted}")
        told(
            "plugin",
            [result["took"] for result in plugin],
            "loop",
            [result["took"] for result in loop],
        )
        failed = [*plugin[0]["failed"], *loop[0]["failed"]]
        print("\n".join(["failed:", *failed]) if failed else "nothing failed on either side")


def _run(command: tuple[str, ...], cwd: str, env: dict[str, str]) -> Any:
    result = json.loads(run(command, Path(cwd), env).strip().splitlines()[-1])
    return {**result, "took": Took(result["wall"], result["cpu"])}


if __name__ == "__main__":
    runs, workload, step = [*sys.argv[1:], *("3", "", "1")[len(sys.argv) - 1 :]]
    main(int(runs), workload, int(step))
