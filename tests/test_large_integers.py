"""`relations.large_integers`: which numbers are tried, and what is a note."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import CheckResult, check_op, tensor
from pytest_customop.checks.relations.large_integers.shifts import numbers


def ranked(x: Tensor) -> Tensor:
    x = x.double()
    return (x[:, None] > x).sum(1)


@torch.library.custom_op("t_large::ranks", mutates_args=())
def ranks(x: Tensor) -> Tensor:
    return ranked(x)


@torch.library.custom_op("t_large::ranks_of_ids", mutates_args=())
def ranks_of_ids(user_ids: Tensor) -> Tensor:
    return ranked(user_ids)


@torch.library.custom_op("t_large::ranks_of_rows", mutates_args=())
def ranks_of_rows(rows: Tensor) -> Tensor:
    return ranked(rows)


@torch.library.custom_op("t_large::mixed", mutates_args=())
def mixed(x: Tensor, limit: Tensor) -> Tensor:
    return x.to(torch.int32).clamp(max=limit.to(torch.int32)).long()


@torch.library.custom_op("t_large::tables", mutates_args=())
def tables(x: Tensor) -> Tensor:
    table = torch.zeros(int(x.max()) + 1, dtype=torch.int64)
    table[x] = 1
    return x - table.nonzero().min()


for custom_op in (ranks, ranks_of_ids, ranks_of_rows, mixed, tables):
    custom_op.register_fake(lambda x, *rest: torch.empty_like(x))


def run(op: Any, *sample: Any) -> CheckResult:
    (result,) = check_op(op, [sample], checks="relations.large_integers", variants=False)
    return result


NUMBERS = tensor(9, dtype=torch.int64)
FEW = torch.tensor([3, 1, 2, 5, 4, 9, 3])


@pytest.mark.parametrize(
    ("op", "given", "outcome"),
    [
        (ranks, NUMBERS, "failed"),
        (ranks, FEW, "noted"),
        (ranks, FEW + 2**40, "failed"),
        (ranks, tensor(9, dtype=torch.int64, low=0, high=1000), "skipped"),
        (ranks, tensor(9, dtype=torch.int64, low=0, high=2**50), "passed"),
        (ranks, tensor(9, dtype=torch.int32), "skipped"),
        (ranks_of_ids, FEW, "failed"),
        (ranks_of_rows, NUMBERS, "skipped"),
    ],
)
def test_numbers_that_the_sample_or_the_name_shows(op: Any, given: Any, outcome: str) -> None:
    assert run(op, given).outcome == outcome


def test_numbers_of_several_arguments_grow_together() -> None:
    result = run(mixed, NUMBERS, tensor(dtype=torch.int64))
    assert result.outcome == "failed"
    assert "added to x, limit" in result.message
    assert "int32" in result.evidence


def test_a_table_as_long_as_the_largest_number_takes_no_memory_of_this_process() -> None:
    assert run(tables, NUMBERS).outcome == "passed"


def test_no_item_is_made_without_whole_numbers() -> None:
    assert not check_op(ranks, [(tensor(4),)], checks="relations.large_integers")


def test_there_are_neighbours_and_equals() -> None:
    for count in (3, 5, 12, 40):
        like = torch.zeros(count, dtype=torch.int64)
        values = numbers(like, 1, ordered=False)
        assert values.unique().tolist() == list(range(len(values.unique())))
        assert 2 < len(values.unique()) < count + (count == 3)
        assert numbers(like, 1, ordered=True).tolist() == sorted(values.tolist())
