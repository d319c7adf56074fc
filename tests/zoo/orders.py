"""Whether order decides anything: `python -m tests.zoo.orders [--every N] [--offset M] [--orders K]`.

Every check of every case of the chosen specimens runs alone, each in a process that has run none of
them, and then all of them, mixed, in random orders, each order in one process. What they say is compared:
outcome, code of the finding, code of the skip, and the words less addresses. What differs is printed.
Orders of an even seed keep all that can be shared to the end, for longer than any session does; the
others let go of it as a session does.

The processes are forked from one that has checked an op of its own and no other. `--fresh K` has K of
the items, drawn by the seed, run in a new interpreter each as well; `--alone N` has each Nth item only
run alone, which takes the longest. Specimens go by name; `--every 4 --offset 1` takes another fourth of
them than `--every 4`. No specimen is left out: none takes its process down.
"""

import argparse
import gc
import json
import logging
import os
import random
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

import torch

from pytest_customop import check_op, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import Check
from pytest_customop.checks.compile import graph_cache
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.items import PlannedItem
from pytest_customop.plan.matrix import plan
from pytest_customop.plan.selection import registry_from, select_checks
from pytest_customop.run.engine import run_check
from pytest_customop.run.prepare import prepare_checks
from pytest_customop.run.standalone import standalone_hook
from pytest_customop.settings import AMOUNTS, Settings, Variants

from .registry import Specimen, specimens

WORDS = ("outcome", "finding", "skip_code", "message")
_DIED = "died"  # as an outcome: the process ended before it said anything
Told = tuple[Optional[str], ...]  # in the order of WORDS

# Ops whose values hang on how often they were called, or on the system; the words, which name values, are
# not compared.
OWN_STATE = {
    "noise_from_the_system": "takes numbers from the system",
    "dropout_with_a_generator_of_its_own": "takes numbers from a stream that no call starts again",
}


@dataclass(frozen=True, eq=False)
class Item:
    """One check on one case of a specimen."""

    name: str
    check: Check
    case: Case


def main(arguments: Sequence[str]) -> int:
    """Print what differs and how many items were compared; the exit status says whether any differs."""
    args = _read(arguments)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    all_names = sorted(specimens())
    names = {*all_names[args.offset :: args.every], *args.also.split()}
    chosen = [specimens()[name] for name in sorted(names)]
    settings = Settings(
        backend=args.backend,
        variants=Variants(args.amount),
        checks=tuple(args.checks.split(",")) if args.checks else None,
    )
    items, left_out = planned(chosen, settings)
    if args.item is not None:
        print(json.dumps(tell(_named(items)[args.item])))
        return 0
    _warm_up(args.backend)
    print(f"{len(chosen)} specimens, {len(items)} items; {left_out} more that run nothing")
    # Of those that do not run alone, the first order says what the others should.
    expected = _alone(items[:: args.alone])
    alone = sorted(expected)
    differing: set[str] = set()
    for seed in range(args.seed, args.seed + args.orders):
        start = time.perf_counter()
        records = in_child(shuffled(items, seed), kept=seed % 2 == 0)
        expected = {**records, **expected}
        differing |= _compare(f"order {seed}", expected, records)
        print(f"order {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    for name in random.Random(args.seed).sample(alone, min(args.fresh, len(alone))):
        differing |= _compare("new interpreter", expected, {name: _fresh(arguments, name)})
    print(
        f"{len(expected)} items compared, {len(alone)} of them alone, {args.orders} orders, "
        f"{args.fresh} in new interpreters; {len(differing)} differ"
    )
    gc.unfreeze()
    return int(bool(differing))


def _alone(items: Sequence[Item]) -> dict[str, Told]:
    """What each says in a process of its own."""
    start = time.perf_counter()
    alone = {item.name: in_child([item])[item.name] for item in items}
    outcomes = Counter(str(record[0]) for record in alone.values())
    counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"alone: {time.perf_counter() - start:.0f} s: {counted}", flush=True)
    for name, record in alone.items():
        if record[0] in ("error", _DIED):
            print(f"alone: {name}: {record[0]}: {record[-1]}")
    return alone


def _read(arguments: Sequence[str]) -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.orders")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth specimen only")
    parser.add_argument("--offset", type=int, default=0, metavar="M", help="from the Mth one on")
    parser.add_argument("--also", default="", metavar="NAMES", help="and these specimens")
    parser.add_argument("--orders", type=int, default=3, metavar="K")
    parser.add_argument("--seed", type=int, default=0, help="of the first order; the next follow")
    parser.add_argument("--alone", type=int, default=1, metavar="N", help="each Nth item only")
    parser.add_argument("--fresh", type=int, default=0, metavar="K", help="items in interpreters")
    parser.add_argument("--checks", help="names or families, between commas, of those by default")
    parser.add_argument("--backend", default="aot_eager", help="of compile.*")
    parser.add_argument("--amount", default="off", choices=AMOUNTS, help="of variants")
    # Run this one here, and print what it says.
    parser.add_argument("--item", help=argparse.SUPPRESS)
    if not hasattr(os, "fork"):
        parser.error("this system cannot fork processes")
    return parser.parse_args(arguments)


def planned(chosen: Iterable[Specimen], settings: Settings) -> tuple[list[Item], int]:
    """What there is to run, and how many planned items run nothing."""
    registry = registry_from(standalone_hook())
    items: list[Item] = []
    left_out = 0
    for specimen in chosen:
        declared = {"op": specimen.op(), "samples": specimen.samples, **specimen.options}
        if specimen.also:
            declared["checks"] = specimen.checks()
        declaration = declare_call(declared, specimen.name)
        entries = plan(
            [declaration],
            settings,
            lambda declaration: select_checks(registry, declaration, settings),
            lambda device: None,
        )
        for entry in entries:
            if entry.check is not None and entry.case is not None and entry.skip is None:
                items.append(Item(f"{specimen.name}[{entry.id}]", entry.check, entry.case))
            elif not entry.is_body:
                left_out += 1
    return items, left_out


def _named(items: Iterable[Item]) -> dict[str, Item]:
    return {item.name: item for item in items}


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """The items in the order of that seed."""
    order = [*items]
    random.Random(seed).shuffle(order)
    return order


def tell(item: Item) -> Told:
    """What the check says about the case."""
    result = run_check(item.check, item.case)
    message = OWN_STATE.get(item.name.partition("[")[0], result.message)
    record = (result.outcome, result.finding, result.skip_code, message)
    return tuple(None if field is None else re.sub(r"0x[0-9a-f]+", "0x", field) for field in record)


def in_child(items: Sequence[Item], *, kept: bool = False) -> dict[str, Told]:
    """What the items say one after the other in one process of their own, by name.

    Args:
        items: in their order.
        kept: whether what cases share is kept to the end, or as a session keeps it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(items, kept, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        records = {name: tuple(record) for name, *record in map(json.loads, lines)}
    _, status = os.waitpid(child, 0)
    died = (_DIED, f"status {status}", None, "")
    return {item.name: records.get(item.name, died) for item in items}


def _serve(items: Sequence[Item], kept: bool, writer: int) -> NoReturn:
    """Write a line an item, and end the process."""
    try:
        # Its pool of threads is not the parent's: torch makes it here, before several threads ask for it.
        torch.set_num_threads(torch.get_num_threads())
        with os.fdopen(writer, "w", encoding="utf-8") as lines:
            for item, record in _each(items, kept):
                lines.write(json.dumps([item.name, *record]) + "\n")
                lines.flush()
    except BaseException as error:
        print(f"the process broke: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _each(items: Sequence[Item], kept: bool) -> Iterator[tuple[Item, Told]]:
    if kept:
        graph_cache._LIMIT = len(items)
    prepare_checks(
        (PlannedItem(item.name, item.case.op.name, item.case, item.check), None)
        for item in items
        if item.case.base_case is None
    )
    last: Optional[Case] = None
    for item in items:
        if last is not None and last is not item.case and not kept:
            last.release()
        last = item.case
        yield item, tell(item)


def _compare(where: str, expected: Mapping[str, Told], records: Mapping[str, Told]) -> set[str]:
    """Print the items that say something else than expected; their names."""
    differing = {
        name for name, record in records.items() if record != expected[name] or record[0] == _DIED
    }
    for name in sorted(differing):
        print(f"{where}: {name}")
        for word, first, second in zip(WORDS, expected[name], records[name], strict=True):
            if first != second:
                print(f"    {word}: {second!r} and not {first!r}")
    return differing


def _fresh(arguments: Sequence[str], name: str) -> Told:
    """What an item says in a new interpreter."""
    command = [sys.executable, "-m", "tests.zoo.orders", *arguments, "--item", name]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        return (_DIED, f"status {ran.returncode}", None, "")
    return tuple(json.loads(ran.stdout.splitlines()[-1]))


def _warm_up(backend: str) -> None:
    """Have torch import and set up what it does once, so that every child need not.

    No backward: torch's threads for those do not outlive a fork, and refuse to start again.
    """

    @torch.library.custom_op("orders::warm", mutates_args=())
    def warm(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    warm.register_fake(lambda x: torch.empty_like(x))
    check_op(warm, [(tensor(3, 2),)], backend=backend, variants=False)
    graph_cache.discard_all()
    gc.collect()
    gc.freeze()  # or every child would look through all of torch


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
