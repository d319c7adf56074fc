"""A part of the zoo says the same alone and in random orders; `python -m tests.zoo.orders` has the rest."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# By name: all items of each 60th specimen and of some that change global state, each 8th of them alone
# too; and one check, on which a shared graph tells, of each 16th specimen, on several of which it fails.
CHANGING = "seeds_torch sets_the_default_dtype turns_gradients_off"
ALL = ("--every", "60", "--alone", "8", "--also", CHANGING)
DYNAMIC = ("--every", "16", "--offset", "4", "--checks", "compile.dynamic")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("new_interpreters"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="each item has a forked process"),
]


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
    template = "N items compared, N of them alone, N orders, N in new interpreters; N differ"
    match = re.fullmatch(template.replace("N", r"(\d+)"), lines[-1])
    assert match, printed
    return [int(word) for word in match.groups()]


@pytest.mark.parametrize(
    ("chosen", "least"), [(ALL, (150, 25)), (DYNAMIC, (25, 25))], ids=["all", "dynamic"]
)
def test_a_part_of_the_zoo_says_the_same_alone_and_in_three_orders(
    chosen: tuple[str, ...], least: tuple[int, int]
) -> None:
    ran = _run("-m", "tests.zoo.orders", *chosen)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    compared, alone, *others = _counts(ran.stdout)
    assert (compared > least[0], alone > least[1]) == (True, True)
    assert others == [3, 0, 0]


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
