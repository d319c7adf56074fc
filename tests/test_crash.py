"""When the process that runs a check dies, the report still has the item that it ran."""

from __future__ import annotations

import pytest
from kit import HEAD, Suite

SUITE = """
import os

@torch.library.custom_op("NS::leaves", mutates_args=())
def leaves(x: torch.Tensor) -> torch.Tensor:
    os._exit(3)

@torch.library.custom_op("NS::aborts", mutates_args=())
def aborts(x: torch.Tensor) -> torch.Tensor:
    os.abort()

@torch.library.custom_op("NS::lives", mutates_args=())
def lives(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@customop_cases(lives, [(tensor(3),), (tensor(4),)])
def test_before(): ...

@customop_cases(leaves, [Sample((tensor(3),), id="deadly")], dtypes=[torch.float64])
@customop_cases(aborts, [Sample((tensor(3),), id="deadly")], dtypes=[torch.float64])
def test_dies(): ...

@customop_cases(lives, [(tensor(3),), (tensor(4),)])
def test_later(): ...
"""


def test_the_items_that_killed_their_workers_are_errors_in_full(suite: Suite) -> None:
    suite.test(SUITE, ops=HEAD)
    result = suite.run_apart("-n", "2", "--customop-report=report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    results = suite.results()
    assert [record["outcome"] for record in results].count("passed") == 4
    lost = [record for record in results if record["outcome"] != "passed"]
    for record, op in zip(lost, ("aborts", "leaves"), strict=True):
        name = f"test_dies[{suite.ns}.{op}-cpu-float64-nograd-deadly-own.passes]"
        assert "crashed while running" in record.pop("message")
        del record["duration"]
        expected = {
            "nodeid": f"test_it.py::{name}",
            "op": f"{suite.ns}::{op}",
            "check": "own.passes",
            "device": "cpu",
            "dtype": "float64",
            "requires_grad": False,
            "layout": "contiguous",
            "sample": "deadly",
            "variant": None,
            "outcome": "error",
            "finding": None,
            "fix": None,
            "known": None,
            "repro": f"pytest 'test_it.py::{name}' --customop-checks=own.passes",
        }
        assert {key: record[key] for key in expected} == expected
        result.stdout.fnmatch_lines([f"{suite.ns}::{op} *1 error"])
