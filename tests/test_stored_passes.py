"""Success of `test_aot_dispatch_dynamic` on disk: it runs again wherever it could say something else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from bending import bending

from pytest_customop import Check, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.checks.compile import dynamic, graph_cache
from pytest_customop.checks.opcheck import aot_dispatch_dynamic, stored_pass
from pytest_customop.compat.stored_functions import functions_are_stored
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.run.engine import run_check
from pytest_customop.run.prepare import prepare_checks
from pytest_customop.settings import Settings, Variants
from tests.zoo import Specimen, specimens

BY_NAME = {check.name: check for check in builtin_checks()}
AOT = BY_NAME["opcheck.test_aot_dispatch_dynamic"]
DYNAMIC, STATIC = BY_NAME["compile.dynamic"], BY_NAME["compile.static"]
SHAPES = ((3, 4), (5, 2, 3))

pytestmark = pytest.mark.skipif(
    not functions_are_stored(), reason="torch stores no functions here, or no keys can be made"
)


class Does:
    """What the op below does now; each value may be changed between two sessions."""

    factor = 2.0
    transposed = False
    keeps_sizes = False
    reads_values_when_compiled = False
    reads_values_else = False
    kernel_gives_nan = False
    kernel_counts_calls = False
    misreads_expanded = False


@pytest.fixture(autouse=True)
def bend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Changes what the op does; at first it is right, and nothing is stored."""
    return bending(monkeypatch, tmp_path, Does)


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the cases on which torch's utility has run."""
    seen: list[str] = []
    real = aot_dispatch_dynamic.run_utility

    def run(case: Case, name: str) -> None:
        seen.append(case.id)
        real(case, name)

    monkeypatch.setattr(aot_dispatch_dynamic, "run_utility", run)
    return seen


_calls = iter(range(10**9))


@torch.library.custom_op("stored_passes::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    if Does.kernel_gives_nan:
        return x * torch.nan
    return x * 2 + (next(_calls) if Does.kernel_counts_calls else 0)


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    if Does.transposed and x.dim() == 2:
        return x.new_empty(tuple(reversed(x.shape))).t()
    return torch.empty_like(x)


@torch.library.custom_op("stored_passes::scaled", mutates_args=())
def scaled(grad: torch.Tensor, by: float) -> torch.Tensor:
    wrong = Does.misreads_expanded and 0 in grad.stride()
    return grad * (by + wrong)


@scaled.register_fake
def _(grad: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rows = inputs[0].shape[0]


def _backward(ctx: Any, grad: torch.Tensor) -> Any:
    compiling = torch.compiler.is_compiling()
    if Does.reads_values_when_compiled if compiling else Does.reads_values_else:
        float(grad.sum())
    rows = int(ctx.rows) if Does.keeps_sizes else ctx.rows
    return scaled(grad, Does.factor) * grad.new_ones(rows, *grad.shape[1:])


double.register_autograd(_backward, setup_context=_setup)


def _planned(op: Any, samples: Sequence[Any], checks: Sequence[Check], **options: Any) -> Any:
    declared = declare_call({"op": op, "samples": samples, **options}, "here")
    settings = Settings(variants=Variants("off"))
    planned = plan([declared], settings, lambda _: checks, lambda device: None)
    return [item for item in planned if item.check is not None and item.case is not None]


def _outcomes(planned: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What a session says of these items."""
    graph_cache.discard_all()
    prepare_checks([(item, None) for item in planned])
    results = []
    for item in planned:
        result = run_check(item.check, item.case)
        results.append((result.outcome, result.finding, result.skip_code, result.message))
        item.case.release()
    graph_cache.discard_all()
    return results


def _session(*checks: Check, requires_grad: bool = True) -> list[tuple[str, Any]]:
    """What the utility, and these checks, say of a mark; without any: `compile.dynamic` too, behind it."""
    samples = [(tensor(*shape),) for shape in SHAPES]
    planned = _planned(double, samples, checks or (AOT, DYNAMIC), requires_grad=requires_grad)
    outcomes = zip(planned, _outcomes(planned), strict=True)
    return [
        (outcome[0], outcome[1] or outcome[2]) for item, outcome in outcomes if item.check is AOT
    ]


PASSED = [("passed", None)] * 2


@pytest.mark.parametrize("checks", [(AOT, DYNAMIC), (DYNAMIC, AOT)], ids=["before", "behind"])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_what_has_passed_is_not_run_again(
    checks: tuple[Check, ...], requires_grad: bool, ran: list[str]
) -> None:
    for _ in range(3):
        assert _session(*checks, requires_grad=requires_grad) == PASSED
    assert len(ran) == 2


# What has changed, and what the utility says then of a case with two dims and of one with three.
CHANGES: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "factor": (4.0, PASSED),  # with it, eager mode changes too
    "transposed": (True, PASSED),  # the utility compares no strides
    "keeps_sizes": (True, PASSED),
    "reads_values_when_compiled": (True, PASSED),
    "reads_values_else": (True, [("failed", "opcheck-failure")] * 2),
    "kernel_gives_nan": (True, [("skipped", "checker-limit")] * 2),
    "kernel_counts_calls": (True, [("skipped", "nondeterministic")] * 2),
    "misreads_expanded": (True, [("failed", "opcheck-failure")] * 2),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_op_that_has_changed_is_judged_anew(
    name: str, bend: Callable[..., None], ran: list[str]
) -> None:
    before, (value, expected) = getattr(Does, name), CHANGES[name]
    assert _session() == PASSED
    bend(**{name: value})
    assert _session() == expected
    assert len(ran) == 4
    assert _session() == expected
    # The others fail, or their graphs disagree with eager mode: what the utility says is never stored.
    assert len(ran) == (4 if name == "factor" else 6)
    bend(**{name: before})
    ran.clear()
    assert _session() == PASSED
    assert ran == []


def test_a_failure_is_not_stored(bend: Callable[..., None], ran: list[str]) -> None:
    bend(reads_values_else=True)
    first = _session()
    assert {code for _, code in first} == {"opcheck-failure"}
    assert _session() == first
    assert len(ran) == 4


@pytest.mark.parametrize("checks", [(AOT,), (AOT, STATIC)], ids=["alone", "static"])
def test_without_compile_dynamic_nothing_is_stored(
    checks: tuple[Check, ...], ran: list[str]
) -> None:
    for _ in range(2):
        assert _session(*checks) == PASSED
    assert len(ran) == 4
    assert not stored_pass._path("any").parent.exists()


def test_where_caches_are_off_for_all_nothing_is_stored_or_used(ran: list[str]) -> None:
    assert _session() == PASSED
    with torch.compiler.config.patch(force_disable_caches=True):
        assert _session() == PASSED
    assert len(ran) == 4


def test_a_case_that_fails_in_its_group_has_the_utility_run(
    monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    assert _session() == PASSED
    monkeypatch.setattr(dynamic, "agreeing_dynamic", lambda *args: [])
    assert _session() == PASSED
    assert len(ran) == 4


def test_other_settings_of_the_tracer_are_another_key(ran: list[str]) -> None:
    assert _session() == PASSED
    with torch._functorch.config.patch(treat_parameters_as_free_to_save=False):
        assert _session() == PASSED
    assert len(ran) == 4


def test_where_the_code_of_an_op_is_not_known_nothing_is_stored(
    monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    monkeypatch.setattr(stored_pass, "sources_of", lambda files: None)
    for _ in range(2):
        assert _session() == PASSED
    assert len(ran) == 4


def test_other_code_is_another_key(monkeypatch: pytest.MonkeyPatch, ran: list[str]) -> None:
    real = stored_pass.sources_of
    assert _session() == PASSED
    monkeypatch.setattr(stored_pass, "sources_of", lambda files: real(files)._replace(digest="x"))
    assert _session() == PASSED
    assert len(ran) == 4


LIBRARY = torch.library.Library("stored_passes", "FRAGMENT")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")


@pytest.mark.parametrize("op", [torch.ops.stored_passes.twice.default, double])
def test_the_files_that_define_an_op_count(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    real = stored_pass.sources_of

    def sources_of(files: set[str]) -> Any:
        seen.append(files)
        return real(files)

    monkeypatch.setattr(stored_pass, "sources_of", sources_of)
    samples = [(tensor(*shape),) for shape in SHAPES]
    _outcomes(_planned(op, samples, (AOT, DYNAMIC), requires_grad=True))
    assert seen == [{__file__}] * 2


def test_a_success_that_cannot_be_stored_is_one(ran: list[str]) -> None:
    folder = stored_pass._path("any").parent
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    for _ in range(2):
        assert _session() == PASSED
    assert len(ran) == 4


def _chosen() -> list[Specimen]:
    """Specimens on which the utility or `compile.dynamic` says something, and every 60th."""
    checks = {AOT.name, DYNAMIC.name}
    ordered = sorted(specimens().values(), key=lambda specimen: specimen.name)
    return [
        specimen
        for index, specimen in enumerate(ordered)
        if index % 60 == 0
        or any(
            where in checks
            for where, _ in specimen.findings() | specimen.noted() | specimen.limits()
        )
    ]


@pytest.mark.slow
def test_the_zoo_says_the_same_again_with_what_it_has_stored(ran: list[str]) -> None:
    def session() -> tuple[list[str], list[tuple[Any, ...]]]:
        planned = [
            item
            for specimen in _chosen()
            for item in _planned(
                specimen.op(), specimen.samples, (AOT, STATIC, DYNAMIC), **specimen.options
            )
        ]
        names = [f"{item.case.op.name} {item.case.id} {item.check.name}" for item in planned]
        return names, _outcomes(planned)

    names, first = session()
    cold = len(ran)
    again, second = session()
    assert names == again
    differing = [
        (name, before, after)
        for name, before, after in zip(names, first, second, strict=True)
        if before != after and "nondeterministic" not in (before[2], after[2])
    ]
    assert differing == []
    assert os.listdir(stored_pass._path("any").parent)
    assert len(ran) - cold < cold
