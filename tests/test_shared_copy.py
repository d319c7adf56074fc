"""Checks on several variants in one copy of the process."""

import ctypes
import os
from collections.abc import Callable

import pytest
import torch
from kit import Suite

from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.checks import Check
from pytest_customop.core import forked
from pytest_customop.core.forked import ForkedError, run_forked, run_in_copy, share_copy
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import fail, skip
from pytest_customop.run.shared_copy import results_in_copy

pytestmark = pytest.mark.skipif(not forked.AVAILABLE, reason="no fork here")

PLACEMENT = Placement("cpu", torch.float32, False, "contiguous")


@torch.library.custom_op("t_shared::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


HALVE = ops.resolve(halve)


def cases(count: int) -> list[Case]:
    """Cases with 1, 2, ... elements, whose plain call was made."""
    made = [
        Case(HALVE, Sample((tensor(size),), {}, f"{size}"), PLACEMENT)
        for size in range(1, count + 1)
    ]
    for case in made:
        assert case.eager.error is None
    return made


def results(run: Callable[[Case], None], given: list[Case]) -> dict[int, str]:
    """The outcomes in a shared copy, by the number of elements."""

    def in_copy(case: Case) -> None:
        run_in_copy(lambda send: send(run(case)), 30)

    check = Check(name="t.shared", summary="does", run=in_copy, in_copies=lambda case: True)
    found = results_in_copy(check, given)
    return {case.eager.outputs[0][1].numel(): result.outcome for case, result in found.items()}


def test_work_in_a_shared_copy_is_done_there() -> None:
    def work(send):
        share_copy()
        inner = [run_forked(lambda send: send(os.getpid()), 30).messages for _ in range(2)]
        send((os.getpid(), inner))
        with pytest.raises(ForkedError, match="ZeroDivisionError"):
            run_forked(lambda send: 1 / 0, 30)

    ((copy, inner),) = run_forked(work, 30).messages
    assert inner == [[copy], [copy]]
    assert copy != os.getpid()


def test_cases_that_pass_share_a_copy() -> None:
    copies = []
    assert results(lambda case: copies.append(case), cases(3)) == dict.fromkeys((1, 2, 3), "passed")
    assert copies == []


def test_a_finding_is_left_to_the_case_itself() -> None:
    def check(case: Case) -> None:
        if case.eager.outputs[0][1].numel() == 2:
            raise fail("t-shared", "no", fix="yes")

    given = cases(3)
    made = Check(name="t.shared", summary="does", run=check, in_copies=lambda case: True)
    found = results_in_copy(made, given)
    assert [case in found for case in given] == [True, False, True]


@pytest.mark.parametrize(
    ("code", "is_kept"), [("nothing-to-check", True), ("checker-limit", False)]
)
def test_only_a_case_with_nothing_to_check_is_skipped_there(code: str, is_kept: bool) -> None:
    def check(case: Case) -> None:
        raise skip(code, "as it is")

    made = Check(name="t.shared", summary="does", run=check, in_copies=lambda case: True)
    given = cases(2)
    assert {*results_in_copy(made, given)} == ({*given} if is_kept else set())


def test_a_copy_that_dies_leaves_out_one_case() -> None:
    def dies(case: Case) -> None:
        if case.eager.outputs[0][1].numel() in (2, 4):
            ctypes.string_at(8)

    outcomes = results(dies, cases(7))
    assert outcomes == dict.fromkeys((1, 3, 5, 6, 7), "passed")


def test_copies_are_not_made_for_ever() -> None:
    def dies(case: Case) -> None:
        ctypes.string_at(8)

    assert results(dies, cases(9)) == {}


def test_other_checks_and_cases_that_have_not_run_have_no_results() -> None:
    def passes(case: Case) -> None: ...

    alone = Check(name="t.alone", summary="does", run=passes)
    assert results_in_copy(alone, cases(3)) == {}
    given = cases(3)
    given[0].release()
    shared = Check(name="t.shared", summary="does", run=passes, in_copies=lambda case: True)
    assert {*results_in_copy(shared, given)} == {*given[1:]}


SOURCE = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

def _read(x: torch.Tensor, count: int) -> list[float]:
    start = x.contiguous()
    return list((ctypes.c_float * count).from_address(start.data_ptr())) if count else []

@torch.library.custom_op("NS::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    beyond = x.numel() % 2 if CARELESS else 0
    return 2 * torch.tensor(_read(x, x.numel() + beyond)[: x.numel()]).reshape(x.shape)

doubled.register_fake(lambda x: x.new_empty(x.shape))

@customop_cases(doubled, [(tensor(4, 2),), (tensor(2, 2),)])
def test_doubled(): ...
"""


@pytest.mark.parametrize("careless", [False, True])
def test_variants_that_share_copies_say_what_each_says_alone(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, careless: bool
) -> None:
    from pytest_customop.run import shared_copy

    suite.write("test_ops.py", SOURCE.replace("CARELESS", str(careless)))
    options = (
        "--customop-checks=values.bounds,relations.split,fake.forward",
        "--customop-isolate=off",
    )
    shared = _outcomes(suite, *options)
    monkeypatch.setattr(shared_copy, "_FEWEST", 1000)
    assert _outcomes(suite, *options) == shared
    assert ("out-of-bounds-read" in shared.values()) == careless


def _outcomes(suite: Suite, *options: str) -> dict[tuple[str, str, str], str]:
    suite.run(*options, "--customop-variants=quick", "--customop-report=report.json")
    return {
        (record["check"], record["sample"], record["variant"] or ""): record["finding"]
        or record["outcome"]
        for record in suite.results()
    }
