"""What the variants of the quick set add to a session that checks the samples only.

    python benchmarks/variants.py [runs [workload [step]]]

There are two workloads, run one after the other unless one is named: `reference`, the bundled operators
with their tests, and `zoo`, every Nth specimen of the project's zoo (24 unless `step` says otherwise),
correct ops and broken ones, with one plain example each. Sessions with `--customop-variants=quick` and
with `off` run by turns, each in a process of its own and with empty caches of the compiler. Prints wall
time and CPU time, children included, and the checks to which the variants add most.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

from paired import Took, by_turns, environment, folder, told, whole

SHOWN = 12  # checks

ZOO = """
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tests.zoo import specimens
    from tests.zoo.plain import plain_mark

    from pytest_customop import customop_cases

    for one in list(specimens().values())[::{every}]:
        samples, options = plain_mark(one)
        name = f"test_{{one.name}}"

        def test(case):
            pass

        test.__name__ = test.__qualname__ = name
        globals()[name] = customop_cases(one.op(), samples, **options)(test)
"""


def main(runs: int = 3, workload: str = "", step: int = 24) -> None:
    """Measure each workload and print."""
    for name in [workload] if workload else ["reference", "zoo"]:
        with folder() as path:
            _measure(name, runs, step, Path(path))


def _measure(workload: str, runs: int, step: int, path: Path) -> None:
    """Measure by turns and print."""
    env = environment(path)
    (path / "none.ini").write_text("[pytest]\n")
    (path / "test_zoo.py").write_text(ZOO.format(every=step))
    what = ["--pyargs", "reference_ops"] if workload == "reference" else ["test_zoo.py"]
    seconds: dict[str, Counter[str]] = {}

    def session(amount: str) -> Took:
        shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
        report = path / "report.json"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-c", "none.ini"]
        options += [f"--customop-variants={amount}", f"--customop-report={report}"]
        # The exit status is 1: of the zoo's ops, the broken ones fail.
        took = whole(["-m", "pytest", *options, *what], path, env, allowed=(0, 1))
        seconds[amount] = _seconds_of_checks(report)
        return took

    quick, off = by_turns(runs, lambda: session("quick"), lambda: session("off"))
    print(f"\n{workload}")
    told("quick", quick, "off", off)
    more = Counter(
        {name: seconds["quick"][name] - seconds["off"][name] for name in seconds["quick"]}
    )
    print("seconds more, by check, in the last runs:")
    for check, spent in more.most_common(SHOWN):
        print(f"{spent:8.1f}  {check}")


def _seconds_of_checks(report: Path) -> Counter[str]:
    seconds: Counter[str] = Counter()
    for record in json.loads(report.read_text("utf-8"))["results"]:
        seconds[record["check"]] += record["duration"] or 0.0
    return seconds


if __name__ == "__main__":
    runs, workload, step = [*sys.argv[1:], *("3", "", "24")[len(sys.argv) - 1 :]]
    main(int(runs), workload, int(step))
