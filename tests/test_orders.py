"""A part of the zoo says the same alone and in random orders; `python -m tests.zoo.orders` has the rest."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Each 30th specimen by name; each 6th of their items alone.
CHOSEN = ("--every", "30", "--alone", "6", "--fresh", "1")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each item has a forked process")


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def _counts(printed: str) -> list[int]:
    """How many items were compared; how many alone, orders, in new interpreters, different ones."""
    lines = printed.splitlines() or [""]
    words = "N items compared, N of them alone, N orders, N in new interpreters; N differ"
    found = re.fullmatch(words.replace("N", r"(\d+)"), lines[-1])
    assert found, printed
    return [int(word) for word in found.groups()]


def test_a_part_of_the_zoo_says_the_same_alone_and_in_three_orders() -> None:
    ran = _run("-m", "tests.zoo.orders", *CHOSEN)
    told = ran.stdout + ran.stderr
    assert ran.returncode == 0, told
    compared, alone, *others = _counts(ran.stdout)
    assert compared > 250
    assert alone > 40
    assert others == [3, 1, 0]


# An op that wears out: no item alone gets to the end of it, and no order of all of them fails to.
WORN = """
import itertools
import sys
import torch
from pytest_customop import tensor
from tests.zoo import orders, registry

def wears_out():
    "Takes 40 calls a process."
    calls = itertools.count()

    @torch.library.custom_op("worn::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        if next(calls) >= 40:
            raise RuntimeError("worn out")
        return x * 2

    double.register_fake(lambda x: torch.empty_like(x))
    return double

worn = registry.Specimen("wears_out", wears_out, [(tensor(2, size),) for size in range(3, 7)])
orders.specimens = lambda: {"wears_out": worn}
sys.exit(orders.main(["--orders", "1"]))
"""


def test_an_op_that_says_something_else_later_differs() -> None:
    ran = _run("-c", WORN)
    assert ran.returncode == 1, ran.stderr
    compared, _, orders, _, differ = _counts(ran.stdout)
    assert orders == 1
    assert 0 < differ < compared
    assert "finding: 'eager-raises' and not None" in ran.stdout
