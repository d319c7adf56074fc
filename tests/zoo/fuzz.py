"""What generated inputs add to one plain example: `python -m tests.zoo.fuzz [--count N] [WORD ...]`.

Each specimen gets the example of `tests.zoo.plain`. A broken one is tried if the cheap checks find nothing
on that and its `quick` variants, a correct one in any case. A line says how many inputs were tried and what
was found; the totals follow. Everything runs in this process: specimens whose kernels could end it are left
out, unless `--native` says that they are to be the only ones, each in a process of its own.
"""

import argparse
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch

from pytest_customop import check_op
from pytest_customop.cases.crash_risk import crash_risk
from pytest_customop.checks import builtin_checks
from pytest_customop.declare import ops
from pytest_customop.global_state.preserve import preserved_state

from .generated import searched
from .plain import plain_mark
from .registry import Specimen, specimens

_MOST_SECONDS = 300  # of one native specimen


class Tried(NamedTuple):
    """What became of one specimen: the inputs, what fails, what is noted."""

    inputs: int
    failed: tuple[str, ...]
    noted: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Print a line a specimen and the totals; the exit status is 1 if a correct op fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.fuzz")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="inputs a check")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth specimen only")
    parser.add_argument("--only", choices=("broken", "correct"))
    parser.add_argument("--native", action="store_true", help="kernels that could end the process")
    parser.add_argument("--in-child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    chosen = [specimen for specimen in specimens().values() if _chosen(specimen, args)][
        :: args.every
    ]
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    totals = dict.fromkeys(
        ("broken", "found", "noted", "correct", "failed", "inputs", "crashed"), 0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for specimen in chosen:
            if _is_risky(specimen) != args.native:
                continue
            if args.native and not args.in_child:
                totals["crashed"] += _in_child(specimen, args.count)
            elif not (specimen.broken and _is_found_already(specimen)):
                _count(specimen, _tried(specimen, args.count), totals)
    print(", ".join(f"{name} {count}" for name, count in totals.items()), flush=True)
    return int(totals["failed"] > 0)


def _chosen(specimen: Specimen, args: argparse.Namespace) -> bool:
    if args.only and specimen.broken != (args.only == "broken"):
        return False
    if args.in_child:
        return specimen.name in args.words
    return not args.words or any(word in specimen.name for word in args.words)


def _is_risky(specimen: Specimen) -> bool:
    return crash_risk(ops.resolve(specimen.op()), "cpu") is not None


def _in_child(specimen: Specimen, count: int) -> int:
    """Run one specimen in a process of its own; 1 if that ends by a signal or takes too long."""
    command = [sys.executable, "-m", "tests.zoo.fuzz", "--native", "--in-child", f"--count={count}"]
    try:
        ended = subprocess.run([*command, specimen.name], check=False, timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{specimen.name}: more than {_MOST_SECONDS} seconds", flush=True)
        return 1
    if ended.returncode < 0:
        kind = "broken" if specimen.broken else "correct"
        print(f"{specimen.name} ({kind}): signal {-ended.returncode}", flush=True)
    return int(ended.returncode < 0)


def _count(specimen: Specimen, tried: Tried, totals: dict[str, int]) -> None:
    kind = "broken" if specimen.broken else "correct"
    totals[kind] += 1
    totals["inputs"] += tried.inputs
    totals["found" if specimen.broken else "failed"] += bool(tried.failed)
    totals["noted"] += bool(tried.noted and not tried.failed)
    failures = ", ".join(tried.failed) or "-"
    notes = f"; noted: {', '.join(tried.noted)}" if tried.noted else ""
    spent = sum(os.times()[:2])
    print(
        f"{specimen.name} ({kind}) {tried.inputs} inputs, {spent:.0f} s so far: {failures}{notes}",
        flush=True,
    )


def _cheap() -> list[str]:
    """The checks that generated inputs are tried with unless others are named."""
    checks = builtin_checks()
    return [
        check.name
        for check in checks
        if check.cheap and "shape" in check.variants and not check.errors
    ]


def _is_found_already(specimen: Specimen) -> bool:
    """Whether the same checks fail on the example or its quick variants."""
    samples, options = plain_mark(specimen)
    with preserved_state():
        results = check_op(specimen.op(), samples, checks=_cheap(), variants="quick", **options)
    return any(result.outcome in ("failed", "error") for result in results)


def _tried(specimen: Specimen, count: int) -> Tried:
    samples, options = plain_mark(specimen)
    mark = {"op": specimen.op(), "samples": samples, **options}
    inputs, failed, noted = 0, [], []
    with preserved_state():
        for check, search in searched(mark, _cheap(), count):
            torch._dynamo.reset()
            inputs += search.accepted
            failed += [f"{check.name} {result.finding or 'error'}" for result in search.failures]
            noted += [f"{check.name} {result.finding}" for result in search.notes]
    return Tried(inputs, tuple(dict.fromkeys(failed)), tuple(dict.fromkeys(noted)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
