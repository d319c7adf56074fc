"""The plugin against the loop that an author writes by hand, on the same cases and checks.

    python benchmarks/loop.py [runs [dynamic [every]]]

The cases are in `workload.py`, the loop is `by_hand.py`, the plugin's side `by_plugin.py`: each runs in
a process of its own, by turns, with caches of the compiler that are empty at first ("cold", as in CI)
and then with those that the run before it has left ("warm"). Prints both, in wall time and in
CPU time, children included. With `dynamic` 1, both compile with dynamic sizes as well; with `every` N,
every Nth sample of an op is taken only.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from paired import HERE, Took, environment, folder, run, told

CHECKS = "opcheck,compile.static,gradcheck.backward"


def main(runs: int = 3, dynamic: int = 0, every: int = 1) -> None:
    """Measure by turns and print."""
    checks = CHECKS + ",compile.dynamic" * bool(dynamic)
    sides = {
        "plugin": (str(HERE / "by_plugin.py"), checks),
        "loop": (str(HERE / "by_hand.py"), str(int(bool(dynamic)))),
    }
    found: dict[tuple[str, str], list[Any]] = {}
    with folder() as name:
        env = {**environment(Path(name)), "CUSTOMOP_BENCHMARK_EVERY": str(every)}
        for turn in range(runs):
            for side in sorted(sides, reverse=turn % 2 == 1):
                for state in ("cold", "warm"):
                    if state == "cold":
                        shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
                    found.setdefault((side, state), []).append(_run(sides[side], name, env))
    for state in ("cold", "warm"):
        mine, theirs = found["plugin", state], found["loop", state]
        print(f"\ncaches {state}: {mine[0]['items']} items, {theirs[0]['cases']} cases by hand")
        told("plugin", [one["took"] for one in mine], "loop", [one["took"] for one in theirs])
        failed = [*mine[0]["failed"], *theirs[0]["failed"]]
        print("\n".join(["failed:", *failed]) if failed else "nothing failed on either side")


def _run(command: tuple[str, ...], cwd: str, env: dict[str, str]) -> Any:
    told = json.loads(run(command, Path(cwd), env).strip().splitlines()[-1])
    return {**told, "took": Took(told["wall"], told["cpu"])}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
